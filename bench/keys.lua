-- wrk: requests of 1,000 clients in turn, and a report for a program to read.

local CLIENTS = 1000
local requests = {}
local next_client = 0

function init()
  for client = 1, CLIENTS do
    requests[client] = wrk.format("GET", "/orders", { ["X-Api-Key"] = string.format("client-%04d", client) })
  end
end

function request()
  next_client = next_client % CLIENTS + 1
  return requests[next_client]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d,'
      .. ' "errors": {"connect": %d, "read": %d, "write": %d, "timeout": %d, "status": %d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
