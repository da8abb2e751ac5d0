-- For wrk: requests of one client with a body, and the report of keys.lua.
--
--   PATH FILE    all requests have this path, and the bytes of this file as a body in JSON

local keys = debug.getinfo(1, "S").source:sub(2):gsub("bodies.lua$", "keys.lua")
dofile(keys) -- its report
local message

function init(arguments)
  local body = assert(io.open(arguments[2], "rb")):read("*a")
  local fields = { ["X-Api-Key"] = "client-00001", ["Content-Type"] = "application/json" }
  message = wrk.format("POST", arguments[1], fields, body)
end

function request()
  return message
end
