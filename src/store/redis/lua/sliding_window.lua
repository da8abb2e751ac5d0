-- Two counters, the older one fading, as `SlidingWindow` has them. The end tells
-- the window: it is that of the next one if this one counts something, or its own.

local function sliding_window()
  local kind = {}

  function kind.read(charge, body, at)
    charge.limit, charge.length, at = unpack_bytes('<I6I6', body, at)
    return at
  end

  function kind.stand(charge, value, now)
    local length, state = charge.length, charge.state
    local window = ceil(now / length)
    charge.window, charge.left = window, window * length - now
    charge.current, charge.previous = 0, 0
    local last = state and floor(state.ends / length) or 0
    if last * length <= now then
      return
    end
    local current, at = read(value, state.at)
    local previous = read(value, at)
    local stored = current > 0 and last - 1 or last
    if stored < window then
      charge.previous = current
    else
      charge.current, charge.previous = current, previous
    end
    if stored > window then -- The clock ran backwards: nothing has faded yet.
      charge.window, charge.left = stored, length
    end
  end

  local function counted(charge)
    local fading, rest = product_over(charge.previous, charge.left, charge.length)
    return charge.current + fading + (rest > 0 and 1 or 0)
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
    if charge.window == taken then
      charge.current = max(0, charge.current - units)
    elseif charge.window == taken + 1 then
      charge.previous = max(0, charge.previous - units)
    end
  end

  function kind.ends(charge)
    if charge.current > 0 then
      return (charge.window + 1) * charge.length
    elseif charge.previous > 0 then
      return charge.window * charge.length
    end
  end

  function kind.numbers(charge)
    return write(charge.current) .. write(charge.previous)
  end

  return kind
end
