-- .luacheckrc: luacheck's settings: LuaJIT everywhere, the host's `lt` known to recipes, Busted's names to specs.
std = "luajit"
max_line_length = 120
exclude_files = { "build*/**", "runs/**", "tests/recipes/faulty/**", "lua/library/**" }
files["recipes"] = { std = "luajit", read_globals = { "lt" } }
files["tests"] = { read_globals = { "lt" } }
files["tests/**/*_spec.lua"] = { std = "luajit+busted" }
