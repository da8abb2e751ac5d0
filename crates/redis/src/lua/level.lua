-- A level that falls steadily: the token bucket and the leaky bucket, as
-- `TokenBucket` and `LeakyBucket` have them. A unit is as many parts as the
-- window has microseconds. A level of whole units and parts is kept as these two
-- numbers, the parts less than a unit's.

local function levels(number)
  -- `units` and `parts` without others; never less than nothing.
  local function less(units, parts, other_units, other_parts, unit)
    units, parts = units - other_units, parts - other_parts
    if parts < 0 then
      units, parts = units - 1, parts + unit
    end
    if units < 0 then
      return 0, 0
    end
    return units, parts
  end

  -- What is left of a level after it has leaked for so long.
  local function leak(charge, units, parts, elapsed)
    local window, limit = charge.length, charge.limit
    if elapsed <= 0 then
      return units, parts
    elseif elapsed / window * limit > units + 2 then
      return 0, 0
    end
    local windows = floor(elapsed / window)
    local gone, rest = product_over(limit, elapsed - windows * window, window)
    return less(units, parts, windows * limit + gone, rest, window)
  end

  local function level_room(charge)
    return charge.capacity - charge.units - (charge.parts > charge.capacity_parts and 1 or 0)
  end

  -- Raises a level, but not above twice the capacity.
  local function raise(charge, units)
    local most, most_parts = 2 * charge.capacity, 2 * charge.capacity_parts
    if most_parts >= charge.length then
      most, most_parts = most + 1, most_parts - charge.length
    end
    local room, room_parts = less(most, most_parts, charge.units, charge.parts, charge.length)
    if units <= room then
      charge.units = charge.units + units
    elseif room > 0 or room_parts > 0 then
      charge.units, charge.parts = most, most_parts
    end
  end

  -- When a level will be zero, or a little later.
  local function level_end(charge)
    local time = (charge.units * charge.length + charge.parts) / charge.limit
    return charge.as_of + ceil(time * (1 + 2 ^ -50)) + 1
  end

  local function token_bucket()
    local kind = { room = level_room, owe = raise }

    function kind.read(charge, body, at)
      charge.limit, charge.length, charge.capacity, at = unpack_bytes('<I6I6I6', body, at)
      charge.capacity_parts = 0
      return at
    end

    function kind.stand(charge, now, ends, value, at)
      local as_of, units, parts = now, 0, 0
      if ends then
        local sooner
        sooner, at = read(value, at)
        units, parts, at = read_two(value, at)
        units, parts = leak(charge, units, parts, now - ends + sooner)
        if units > 0 or parts > 0 then
          as_of = max(ends - sooner, now)
        end
      end
      charge.as_of, charge.units, charge.parts = as_of, units, parts
      return at
    end

    function kind.take(charge, units)
      charge.units = charge.units + units
    end

    -- What cannot have leaked out since.
    function kind.give(charge, units, taken)
      local given, given_parts = leak(charge, units, 0, charge.as_of - taken)
      charge.units, charge.parts = less(charge.units, charge.parts, given, given_parts, charge.length)
    end

    -- All of it, of a request that did not go on.
    function kind.cancel(charge, units)
      charge.units, charge.parts = less(charge.units, charge.parts, units, 0, charge.length)
    end

    function kind.ends(charge)
      return (charge.units > 0 or charge.parts > 0) and level_end(charge) or nil
    end

    function kind.numbers(charge, ends)
      return write(ends - charge.as_of) .. write_two(charge.units, charge.parts)
    end

    return kind
  end

  -- Its units are stored doubled, and one more if several takes may have happened
  -- at the same time, so that none can be told to be the last.
  local function leaky_bucket()
    local kind = { room = level_room }

    function kind.read(charge, body, at)
      charge.limit, charge.length, charge.capacity, charge.capacity_parts, at =
        unpack_bytes('<I6I6I6I6', body, at)
      return at
    end

    -- The level at present, and that of the last take.
    function kind.stand(charge, now, ends, value, at)
      local as_of, units, parts, last = now, 0, 0, nil
      if ends then
        local sooner, doubled
        sooner, at = read(value, at)
        doubled, parts, at = read_two(value, at)
        last = { as_of = ends - sooner, units = floor(doubled / 2), parts = parts }
        last.shared = doubled % 2 == 1
        units, parts = leak(charge, last.units, parts, now - last.as_of)
        if units > 0 or parts > 0 then
          as_of = max(last.as_of, now)
        end
      end
      charge.now, charge.as_of, charge.units, charge.parts = now, as_of, units, parts
      charge.last, charge.moved, charge.shared = last, false, false
      return at
    end

    local function move(charge)
      charge.moved = true
      charge.shared = charge.last ~= nil and charge.last.as_of >= charge.now
    end

    function kind.take(charge, units)
      if units > 0 then
        charge.units = charge.units + units
        move(charge)
      end
    end

    function kind.owe(charge, units)
      raise(charge, units)
      move(charge)
    end

    -- The slots of the last take, and of no other: those behind it are promised.
    function kind.give(charge, units, taken)
      local last = charge.last
      if last and last.as_of == taken and not last.shared then
        last.units, last.parts = less(last.units, last.parts, units, 0, charge.length)
      end
    end

    -- All slots, of a request that did not go on.
    function kind.cancel(charge, units)
      local last = charge.last
      if last then
        last.units, last.parts = less(last.units, last.parts, units, 0, charge.length)
      end
    end

    function kind.ends(charge)
      local last = charge.last
      if not charge.moved then
        local units, parts = 0, 0
        if last then
          units, parts = leak(charge, last.units, last.parts, charge.now - last.as_of)
        end
        if units == 0 and parts == 0 then
          return nil
        end
        charge.as_of, charge.units, charge.parts = last.as_of, last.units, last.parts
        charge.shared = last.shared
      end
      return level_end(charge)
    end

    function kind.numbers(charge, ends)
      local doubled = charge.units * 2 + (charge.shared and 1 or 0)
      return write(ends - charge.as_of) .. write_two(doubled, charge.parts)
    end

    return kind
  end

  return number == 5 and token_bucket() or leaky_bucket()
end
