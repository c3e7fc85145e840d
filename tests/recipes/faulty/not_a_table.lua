-- not_a_table.lua: a recipe that returns something else.
return 42
