-- For wrk: requests of clients that come once, and one client that makes one request of 50.
--
--   FIRST   the number of the first client

local BATCH = 50
local client

local function request_of(name)
  return "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: " .. name .. "\r\n\r\n"
end

function init(arguments)
  client = tonumber(arguments[1])
end

function request()
  local batch = { request_of("frequent") }
  for place = 2, BATCH do
    client = client + 1
    batch[place] = request_of(string.format("client-%.0f", client))
  end
  return table.concat(batch)
end
