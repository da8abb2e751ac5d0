-- Everything admitted in the last window, one by one, as `SlidingLog` has it. An
-- entry is two numbers: the microseconds since the entry before, and the units.
-- Stored are how long before its end the newest entry is, how long before that
-- the base is, from which the first entry counts; the units of all; and a block
-- of the entries, the oldest first.

local function sliding_log()
  local kind = {}

  function kind.read(charge, body, at)
    charge.limit, charge.length, at = unpack_bytes('<I6I6', body, at)
    return at
  end

  -- Cuts off what does not count any more. If the clock ran backwards, nothing
  -- has gone yet.
  function kind.stand(charge, now, ends, value, at)
    charge.now, charge.base, charge.newest, charge.sum, charge.entries = now, now, now, 0, ''
    if not ends then
      return at
    end
    local newest_sooner, base_sooner, sum, size
    newest_sooner, base_sooner, at = read_two(value, at)
    sum, size, at = read_two(value, at)
    local newest, after = ends - newest_sooner, at + size
    local base = newest - base_sooner
    while at < after do
      local gap, units, next = read_two(value, at)
      if base + gap + charge.length > now then
        charge.base, charge.newest, charge.sum = base, newest, sum
        charge.entries = sub(value, at, after - 1)
        break
      end
      base, sum, at = base + gap, sum - units, next
    end
    return after
  end

  -- Writes all entries again, those at `time` with `change` more units.
  local function rewrite(charge, time, change)
    local entries, at, written = charge.entries, 1, {}
    local here, newest, sum = charge.base, charge.base, 0
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
    charge.newest, charge.sum, charge.entries = newest, sum, concat(written)
  end

  function kind.room(charge)
    return charge.limit - charge.sum
  end

  function kind.take(charge, units)
    local time = max(charge.now, charge.newest)
    if units == 0 then
      return
    elseif charge.sum > 0 and time == charge.newest then
      rewrite(charge, time, units)
      return
    end
    charge.entries = charge.entries .. write(time - charge.newest) .. write(units)
    charge.newest, charge.sum = time, charge.sum + units
  end

  function kind.owe(charge, units)
    kind.take(charge, min(units, max(0, 2 * charge.limit - charge.sum)))
  end

  function kind.give(charge, units, taken)
    rewrite(charge, taken, -units)
  end

  function kind.ends(charge)
    return charge.sum > 0 and charge.newest + charge.length or nil
  end

  function kind.numbers(charge, ends)
    return write(ends - charge.newest)
      .. write(charge.newest - charge.base)
      .. write(charge.sum)
      .. write(#charge.entries)
      .. charge.entries
  end

  return kind
end
