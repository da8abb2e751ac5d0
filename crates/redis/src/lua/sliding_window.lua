-- Two counters, the older one fading, as `SlidingWindow` has them. Windows are
-- told by when they end; a state ends with the next window if this one counts
-- something, or with this one.

-- What still counts of the units of the window before, rounded up.
local function fading(previous, left, length)
  local units, rest = product_over(previous, left, length)
  return rest > 0 and units + 1 or units
end

local function sliding_window()
  local kind = {}

  function kind.read(charge, body, at)
    charge.limit, charge.length, at = unpack_bytes('<I6I6', body, at)
    return at
  end

  function kind.stand(charge, now, ends, value, at)
    local current, previous = 0, 0
    if ends then
      current, previous, at = read_two(value, at)
    end
    charge.window, charge.left, charge.current, charge.previous =
      slide(now, charge.length, ends or 0, current, previous)
    return at
  end

  local function counted(charge)
    return charge.current + fading(charge.previous, charge.left, charge.length)
  end

  function kind.room(charge)
    return charge.limit - counted(charge)
  end

  function kind.take(charge, units)
    charge.current = charge.current + units
  end

  function kind.owe(charge, units)
    charge.current = charge.current + min(units, max(0, 2 * charge.limit - counted(charge)))
  end

  function kind.give(charge, units, taken)
    local window = taken * charge.length
    if charge.window == window then
      charge.current = max(0, charge.current - units)
    elseif charge.window == window + charge.length then
      charge.previous = max(0, charge.previous - units)
    end
  end

  function kind.ends(charge)
    if charge.current > 0 then
      return charge.window + charge.length
    elseif charge.previous > 0 then
      return charge.window
    end
  end

  function kind.numbers(charge)
    return write_two(charge.current, charge.previous)
  end

  return kind
end
