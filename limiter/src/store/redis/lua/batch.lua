-- All bodies of a call, one after the other, by one clock. The answer to a body
-- is one byte, whether it was refused; the time; and the values that it found.

local now = tonumber(ARGV[1])
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local time = pack_bytes('<I7', now)
local admits, refuses = '\0' .. time, '\1' .. time

local keys = KEYS
if #keys > 1 then
  local seen = {}
  for i = 1, #keys do
    local key = keys[i]
    if seen[key] then
      if not shared then
        define_rare()
        shared = {}
      end
      shared[key] = {}
    end
    seen[key] = true
  end
end

local answers, before, decide, finish = {}, 0, nil, nil
for i = 2, #ARGV do
  local body = ARGV[i]
  local fields, found, refused = byte(body), nil, nil
  -- Its first charge is of a sliding window.
  if fields == 1 and byte(body, 13) < 32 then
    found, refused = decide_plain(keys[before + 1], body, now)
  end
  if refused == nil then
    if not decide then
      decide, finish = define_decide()
    end
    found, refused = decide(body, before, now, found)
  end
  answers[i - 1], before = (refused and refuses or admits) .. found, before + fields
end
-- What the bodies shared.
local written = shared or {}
shared = nil
for key, fields in pairs(written) do
  for name, it in pairs(fields) do
    keep(key, name, it.value, it.before, it.ends, it.ended, now)
  end
end
if finish then
  finish(now)
end
return answers
