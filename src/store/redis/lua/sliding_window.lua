-- Two counters, the older one fading, as `SlidingWindow` has them. The end tells
-- the window: it is that of the next one if this one counts something, or its own.

local function sliding_window()
  local kind = {}

  function kind.read(body, at)
    local limit, length, after = unpack_bytes('<I6I6', body, at)
    return { limit = limit, length = length, window = 0, left = 0, current = 0, previous = 0 }, after
  end

  function kind.stand(counter, state, now)
    local length = counter.length
    local window = ceil(now / length)
    counter.window, counter.left = window, window * length - now
    local last = state and floor(state.ends / length) or 0
    if last * length <= now then
      return
    end
    local current, previous = state.first, state.second
    local stored = current > 0 and last - 1 or last
    if stored < window then
      counter.previous = current
    else
      counter.current, counter.previous = current, previous
    end
    if stored > window then -- The clock ran backwards: nothing has faded yet.
      counter.window, counter.left = stored, length
    end
  end

  local function counted(counter)
    local fading, rest = product_over(counter.previous, counter.left, counter.length)
    return counter.current + fading + (rest > 0 and 1 or 0)
  end

  function kind.room(counter)
    return counter.limit - counted(counter)
  end

  function kind.take(counter, units)
    counter.current = counter.current + units
  end

  function kind.owe(counter, units)
    counter.current = counter.current + min(units, max(0, 2 * counter.limit - counted(counter)))
  end

  function kind.give(counter, units, taken)
    if counter.window == taken then
      counter.current = max(0, counter.current - units)
    elseif counter.window == taken + 1 then
      counter.previous = max(0, counter.previous - units)
    end
  end

  function kind.ends(counter)
    if counter.current > 0 then
      return (counter.window + 1) * counter.length
    elseif counter.previous > 0 then
      return counter.window * counter.length
    end
  end

  function kind.numbers(counter)
    return write(counter.current) .. write(counter.previous)
  end

  return kind
end
