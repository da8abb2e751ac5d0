-- The commonest body, decided in half the time: one field, and units taken from
-- the sliding windows that are all it has, or will be: with numbers alone, without
-- tables. Whatever else a body asks or a field holds is left to the decision that
-- knows everything.

local TAKE = 1

-- Decides a body of one field. It tells the value that it found, and whether the
-- body is refused: nil if it decided nothing.
local function decide_plain(key, body, now)
  local name, charges, at = unpack_bytes('<c7B', body, 2)
  local before = fetch(key, name)
  local value, latest, latest_before, from, size, refused = '', 0, 0, 1, #before, false
  for _ = 1, charges do
    local prefix, op, binding, cost = unpack_bytes('<c4BBI6', body, at)
    local third = byte(prefix, 4) - 16
    if op ~= TAKE or binding ~= 1 or cost == 0 or third < 0 or third > 15 then
      return before, nil
    end
    local limit, length
    limit, length, at = unpack_bytes('<I6I6', body, at + 12)
    local ends, current, previous = 0, 0, 0
    if size > 0 then
      if sub(before, from, from + 3) ~= prefix then
        return before, nil
      end
      ends, from = end_of(before, from, third)
      current, previous, from = read_two(before, from)
      latest_before = max(latest_before, ends)
    end
    local window, left
    window, left, current, previous = slide(now, length, ends, current, previous)
    refused = refused or current + cost + fading(previous, left, length) > limit
    local lead
    lead, ends = begin_state(prefix, third, window + length)
    value, latest = value .. lead .. write_two(current + cost, previous), max(latest, ends)
  end
  if size > 0 and from <= size then
    return before, nil
  elseif not refused then
    keep(key, name, value, before, latest, latest_before, now)
  end
  return before, refused
end
