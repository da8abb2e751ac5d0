-- The window at present, how much of it is left, and the units of it and of the
-- one before, by a state that ends then, with these units. Windows are told by when
-- they end; a state ends with the next window if this one counts something, or with
-- this one.
local function slide(now, length, ends, current, previous)
  local left = -now % length
  local window, last = now + left, ends - ends % length
  if last <= now then
    return window, left, 0, 0
  end
  local stored = current > 0 and last - length or last
  if stored < window then
    return window, left, 0, current
  elseif stored > window then -- The clock ran backwards: nothing has faded yet.
    return stored, length, current, previous
  end
  return window, left, current, previous
end

