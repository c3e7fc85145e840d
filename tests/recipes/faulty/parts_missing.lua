-- parts_missing.lua: a recipe that is empty.
return {}
