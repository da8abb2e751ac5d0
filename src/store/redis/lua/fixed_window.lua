-- One counter that starts again at every window's edge, as `FixedWindow` has it.
-- Windows are told by their end, counted in steps: a window's length, or a
-- second for windows of a calendar. Who asks says when the present one ends, by
-- his clock, and how long the next one is.

local function fixed_window()
  local kind = {}

  function kind.read(body, at)
    local limit, step, edge, length, after = unpack_bytes('<I6I6I6I6', body, at)
    return { limit = limit, step = step, edge = edge, length = length, window = 0, current = 0 }, after
  end

  function kind.stand(counter, state, now)
    local present, edge = floor(now / counter.step), counter.edge
    if present >= edge then
      edge = edge + (floor((present - edge) / counter.length) + 1) * counter.length
    end
    counter.window = edge
    local stored = state and floor(state.ends / counter.step) or 0
    if stored >= edge then
      counter.window, counter.current = stored, state.first
    end
  end

  function kind.room(counter)
    return counter.limit - counter.current
  end

  function kind.take(counter, units)
    counter.current = counter.current + units
  end

  function kind.owe(counter, units)
    counter.current = counter.current + min(units, max(0, 2 * counter.limit - counter.current))
  end

  function kind.give(counter, units, taken)
    if counter.window == taken then
      counter.current = max(0, counter.current - units)
    end
  end

  function kind.ends(counter)
    return counter.current > 0 and counter.window * counter.step or nil
  end

  function kind.numbers(counter)
    return write(counter.current)
  end

  return kind
end
