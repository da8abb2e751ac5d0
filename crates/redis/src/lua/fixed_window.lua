-- One counter that starts again at every window's edge, as `FixedWindow` has it.
-- Windows are told by their end, counted in steps: a window's length, or a
-- second for windows of a calendar. Of a calendar the question says when a window
-- starts and ends, and how long the next one is: that of the present by this clock,
-- as far as the node knows it. If it is another one by this clock, windows are
-- counted on from there: one that is next to it is exact, any other is so unless
-- clocks were put forward or back in between.

local function fixed_window()
  local kind = {}

  function kind.read(charge, body, at)
    charge.limit, charge.step, charge.start, charge.edge, charge.length, at =
      unpack_bytes('<I6I6I6I6I6', body, at)
    return at
  end

  function kind.stand(charge, now, ends, value, at)
    local present, window, current = floor(now / charge.step), charge.edge, 0
    if present >= window then
      window = window + (floor((present - window) / charge.length) + 1) * charge.length
    elseif present < charge.start then
      window = charge.start
        - floor((charge.start - 1 - present) / charge.length) * charge.length
    end
    if ends then
      local stored = floor(ends / charge.step)
      current, at = read(value, at)
      if stored < window then
        current = 0
      else
        window = stored
      end
    end
    charge.window, charge.current = window, current
    return at
  end

  function kind.room(charge)
    return charge.limit - charge.current
  end

  function kind.take(charge, units)
    charge.current = charge.current + units
  end

  function kind.owe(charge, units)
    charge.current = charge.current + min(units, max(0, 2 * charge.limit - charge.current))
  end

  function kind.give(charge, units, taken)
    if charge.window == taken then
      charge.current = max(0, charge.current - units)
    end
  end

  function kind.ends(charge)
    return charge.current > 0 and charge.window * charge.step or nil
  end

  function kind.numbers(charge)
    return write(charge.current)
  end

  return kind
end
