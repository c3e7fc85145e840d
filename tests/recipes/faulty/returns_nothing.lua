-- returns_nothing.lua: a recipe that forgot to return.
local recipe = { seed = 1 }
print(recipe.seed)
