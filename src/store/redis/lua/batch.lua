-- All bodies of a call, one after the other, by one clock. The answer to a body
-- is one byte, whether it was refused; the time; and the values that it found.

local now = tonumber(ARGV[1])
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local time = pack_bytes('<I7', now)
local admits, refuses = '\0' .. time, '\1' .. time

local answers, before, decide = {}, 0, nil
for i = 2, #ARGV do
  local body = ARGV[i]
  local fields, found, refused = byte(body), nil, nil
  if fields == 1 then
    found, refused = decide_plain(KEYS[before + 1], body, now)
  end
  if refused == nil then
    decide = decide or define_decide()
    found, refused = decide(body, before, now, found)
  end
  answers[i - 1], before = (refused and refuses or admits) .. found, before + fields
end
return answers
