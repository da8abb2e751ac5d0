-- A state is: the counter's id (3 bytes); a head of one byte, the kind times 16
-- and a third of the exponent e; its end, in units of 2^e microseconds since
-- 2025-01-01 and rounded up, in 4 bytes, or in 6 where a unit is shorter than a
-- quarter of a second; then as many numbers as its kind has; then, for some
-- kinds, a block of bytes whose length is the last number. From its end on a
-- state is surely worth nothing. So what is over can be told, and removed,
-- without knowing its policy; and a window is told by its end.

-- When the state at `from` ends, by the third of its exponent, and where its
-- numbers begin. A value that ends too early ends the state, too.
local function end_of(value, from, third)
  if third >= 6 and from + 7 <= #value then
    return 1735689600000000 + struct.unpack('<I4', value, from + 4) * 8 ^ third, from + 8
  elseif third < 6 and from + 9 <= #value then
    return 1735689600000000 + struct.unpack('<I6', value, from + 4) * 8 ^ third, from + 10
  end
  return 0, #value + 1
end

-- How a state with this id and head begins that ends then, or a part of a unit
-- later; and when it does. What ends later, in the year 2060, is said to end there:
-- it fits into four bytes.
local function begin_state(prefix, third, ends)
  local unit = 8 ^ third
  ends = (ends < 2861589506580480 and ends or 2861589506580480) - 1735689600000000
  ends = ends > 0 and ends + -ends % unit or 0
  local form = third >= 6 and '<c4I4' or '<c4I6'
  return struct.pack(form, prefix, ends / unit), ends + 1735689600000000
end

-- Makes sure that a key lives until `ends`: a bucket lives for half an hour after its
-- last state. How long it will is looked up when a state ends in a later quarter of
-- an hour than the one before, and set again if it is not enough: so it is never
-- less than five minutes. When it is not used any more, it goes as a whole.
local function live_until(key, ends, now)
  local needed = math.ceil((ends - now) / 1000)
  if redis.call('PTTL', key) < needed + 1200000 then
    redis.call('PEXPIRE', key, needed + 1800000)
  end
end
