-- For wrk: requests of many clients, and a machine-readable report.
--
--   turns N PATH CLOSE      N clients in turn
--   sessions N PATH CLOSE   N clients at a time; each sends 5 to 60 requests and is then
--                           replaced by another client
--
-- All requests have this path. If CLOSE is "close", each closes its connection.

local SESSION_CLIENTS = 50000 -- so many that a client that returns was absent for a long time
local next_request, path, close

local function request_of(client)
  local fields = { ["X-Api-Key"] = string.format("client-%05d", client), ["Connection"] = close }
  return wrk.format("GET", path, fields)
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
  path, close = arguments[3], arguments[4] == "close" and "close" or nil
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
