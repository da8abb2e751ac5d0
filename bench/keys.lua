-- For wrk: requests of many clients, and a machine-readable report.
--
--   turns N PATH KIND       N clients in turn
--   counted N PATH KIND     clients with the numbers from 1 to N, once, and then again
--   random N PATH KIND      one of N clients, each time
--   sessions N PATH KIND    N clients at a time; each sends 5 to 60 requests and is then
--                           replaced by another client
--   only N PATH KIND        the client with the number N
--
-- All requests have this path. If KIND is "close", each closes its connection; if it is
-- "browser", each has the fields that a browser sends; else it is "keep". A number behind
-- KIND is the size of a body in bytes, or 0 for none. Requests with a body are POST. A number
-- behind that is the mean time in milliseconds that a connection waits between a response and
-- its next request. The times have an exponential distribution.

local SESSION_CLIENTS = 50000 -- so many that a client that returns was absent for a long time
local KINDS = {
  keep = {},
  close = { ["Connection"] = "close" },
  browser = {
    ["Connection"] = "keep-alive",
    ["Cache-Control"] = "no-cache",
    ["Sec-Ch-Ua"] = '"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"',
    ["Sec-Ch-Ua-Mobile"] = "?0",
    ["Sec-Ch-Ua-Platform"] = '"Linux"',
    ["Upgrade-Insecure-Requests"] = "1",
    ["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
      .. "Chrome/130.0.0.0 Safari/537.36",
    ["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
      .. "image/apng,*/*;q=0.8",
    ["Sec-Fetch-Site"] = "same-origin",
    ["Sec-Fetch-Mode"] = "navigate",
    ["Sec-Fetch-Dest"] = "document",
    ["Referer"] = "https://shop.example.com/catalogue/shoes?page=2",
    ["Accept-Encoding"] = "gzip, deflate, br, zstd",
    ["Accept-Language"] = "en-US,en;q=0.9,de;q=0.8",
    ["Cookie"] = "_ga=GA1.1.1234567890.1700000000; theme=dark; consent=1; "
      .. "session=eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.abcdefghijklmnopqrstuvwxyz0123456789",
  },
}
local next_request, path, kind, body

local function request_of(client)
  local fields = { ["X-Api-Key"] = string.format("client-%05d", client) }
  for name, value in pairs(kind) do
    fields[name] = value
  end
  return wrk.format(body and "POST" or "GET", path, fields, body)
end

-- So many clients have no prepared requests.
local function counted(clients)
  local client = 0
  return function()
    client = client % clients + 1
    return request_of(client)
  end
end

local function at_random(clients)
  math.randomseed(1) -- the same for every proxy
  return function()
    return request_of(math.random(clients))
  end
end

local function in_turn(requests)
  local client = 0
  return function()
    client = client % #requests + 1
    return requests[client]
  end
end

local function in_sessions(requests, places)
  local client, place, present, left = 0, 0, {}, {}
  math.randomseed(1) -- the same for every proxy
  return function()
    place = place % places + 1
    if (left[place] or 0) == 0 then
      client = client % #requests + 1
      present[place], left[place] = requests[client], math.random(5, 60)
    end
    left[place] = left[place] - 1
    return present[place]
  end
end

function init(arguments)
  local traffic, count = arguments[1], tonumber(arguments[2])
  path, kind = arguments[3], KINDS[arguments[4]]
  local bytes, pause_ms = tonumber(arguments[5]) or 0, tonumber(arguments[6])
  body = bytes > 0 and string.rep("x", bytes) or nil
  if pause_ms then
    math.randomseed(1)
    -- wrk asks for it if it is there.
    function delay()
      return math.floor(0.5 - pause_ms * math.log(1 - math.random()))
    end
  end
  if traffic == "only" then
    next_request = in_turn({ request_of(count) })
    return
  end
  if traffic == "counted" or traffic == "random" then
    next_request = traffic == "counted" and counted(count) or at_random(count)
    return
  end
  local requests = {}
  for client = 1, traffic == "turns" and count or SESSION_CLIENTS do
    requests[client] = request_of(client)
  end
  next_request = traffic == "turns" and in_turn(requests) or in_sessions(requests, count)
end

function request()
  return next_request()
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d,'
      .. ' "errors": {"connect": %d, "read": %d, "write": %d, "timeout": %d, "status": %d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
