-- nginx with Lua does the same work as Tollgate with Redis: a limit for each API
-- key, counted in Redis by one EVALSHA per request over a pooled connection. The
-- response has the same fields. bench/gateways.py starts it.

local redis = require "resty.redis"

local LIMIT, WINDOW_S, PORT = 100000000, 60, tonumber(os.getenv("REDIS_PORT"))
local POOL_IDLE_MS, POOL_SIZE = 60000, 256

-- A sliding window with two counters; the weight of the older one decreases with
-- time. Returns the remaining units, or -1, and the seconds until the counters are
-- empty.
local SCRIPT = [[
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local number, gone = math.floor(time[1] / window), time[1] % window + time[2] / 1000000
local stored = redis.call('HMGET', KEYS[1], 'window', 'current', 'previous')
local last, current, previous = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3])
if last == number - 1 then
  current, previous = 0, current
elseif last ~= number then
  current, previous = 0, 0
end
local counted = current + math.ceil(previous * (window - gone) / window)
local reset = math.ceil(2 * window - gone)
if counted >= limit then
  return { -1, reset }
end
redis.call('HSET', KEYS[1], 'window', number, 'current', current + 1, 'previous', previous)
redis.call('EXPIRE', KEYS[1], 2 * window)
return { limit - counted - 1, reset }
]]

local sha

local function ask(connection, key)
  local answer, problem
  if sha then
    answer, problem = connection:evalsha(sha, 1, key, LIMIT, WINDOW_S)
  end
  if not sha or problem and problem:find("NOSCRIPT", 1, true) then
    sha = assert(connection:script("LOAD", SCRIPT))
    answer, problem = connection:evalsha(sha, 1, key, LIMIT, WINDOW_S)
  end
  return assert(answer, problem)
end

local function check()
  local connection = redis:new()
  connection:set_timeouts(1000, 1000, 1000)
  assert(connection:connect("127.0.0.1", PORT))
  local answer = ask(connection, "limit:" .. ngx.var.http_x_api_key)
  assert(connection:set_keepalive(POOL_IDLE_MS, POOL_SIZE))
  local remaining, reset = answer[1], answer[2]
  local fields = ngx.header
  fields["X-RateLimit-Limit"] = LIMIT
  fields["X-RateLimit-Remaining"] = math.max(0, remaining)
  fields["X-RateLimit-Reset"] = reset
  fields["RateLimit-Policy"] = '"per-key";q=' .. LIMIT .. ";w=" .. WINDOW_S
  fields["RateLimit"] = '"per-key";r=' .. math.max(0, remaining) .. ";t=" .. reset
  if remaining < 0 then
    return ngx.exit(429)
  end
end

return { check = check }
