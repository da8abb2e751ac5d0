-- What Lua and Redis bring along, as locals: those of the function that it is part of.

local call, byte, char, sub, concat = redis.call, string.byte, string.char, string.sub, table.concat
local find_text = string.find
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local unpack_bytes, pack_bytes = struct.unpack, struct.pack

