-- Everything admitted in the last window, one by one, as `SlidingLog` has it. An
-- entry is two numbers: the microseconds since the entry before, and the units.
-- Stored are how long before its end the newest entry is, how long before that
-- the base is, from which the first entry counts; the units of all; and a block
-- of the entries, the oldest first.

local function sliding_log()
  local kind = {}

  function kind.read(body, at)
    local limit, length, after = unpack_bytes('<I6I6', body, at)
    return { limit = limit, length = length, now = 0, base = 0, newest = 0, sum = 0, entries = '' }, after
  end

  -- Cuts off what does not count any more. If the clock ran backwards, nothing
  -- has gone yet.
  function kind.stand(counter, state, now, value)
    counter.now, counter.base, counter.newest = now, now, now
    if not state then
      return
    end
    local newest = state.ends - state.first
    local base, sum, at = newest - state.second, state.third, state.at
    while at <= state.to do
      local gap, after = read(value, at)
      local units, next = read(value, after)
      if base + gap + counter.length > now then
        break
      end
      base, sum, at = base + gap, sum - units, next
    end
    if at <= state.to then
      counter.base, counter.newest, counter.sum = base, newest, sum
      counter.entries = sub(value, at, state.to)
    end
  end

  -- Writes all entries again, those at `time` with `change` more units.
  local function rewrite(counter, time, change)
    local entries, at, written = counter.entries, 1, {}
    local here, newest, sum = counter.base, counter.base, 0
    while at <= #entries do
      local gap, units
      gap, at = read(entries, at)
      units, at = read(entries, at)
      here = here + gap
      if here == time then
        units = max(0, units + change)
      end
      if units > 0 then
        written[#written + 1] = write(here - newest) .. write(units)
        newest, sum = here, sum + units
      end
    end
    counter.newest, counter.sum, counter.entries = newest, sum, concat(written)
  end

  function kind.room(counter)
    return counter.limit - counter.sum
  end

  function kind.take(counter, units)
    local time = max(counter.now, counter.newest)
    if units == 0 then
      return
    elseif counter.sum > 0 and time == counter.newest then
      rewrite(counter, time, units)
      return
    end
    counter.entries = counter.entries .. write(time - counter.newest) .. write(units)
    counter.newest, counter.sum = time, counter.sum + units
  end

  function kind.owe(counter, units)
    kind.take(counter, min(units, max(0, 2 * counter.limit - counter.sum)))
  end

  function kind.give(counter, units, taken)
    rewrite(counter, taken, -units)
  end

  function kind.ends(counter)
    return counter.sum > 0 and counter.newest + counter.length or nil
  end

  function kind.numbers(counter, ends)
    return write(ends - counter.newest)
      .. write(counter.newest - counter.base)
      .. write(counter.sum)
      .. write(#counter.entries)
      .. counter.entries
  end

  return kind
end
