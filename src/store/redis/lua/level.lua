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
  local function leak(counter, units, parts, elapsed)
    local window, limit = counter.length, counter.limit
    if elapsed <= 0 then
      return units, parts
    elseif elapsed / window * limit > units + 2 then
      return 0, 0
    end
    local windows = floor(elapsed / window)
    local gone, rest = product_over(limit, elapsed - windows * window, window)
    return less(units, parts, windows * limit + gone, rest, window)
  end

  local function new_level(limit, length, capacity, capacity_parts)
    return {
      limit = limit, length = length, capacity = capacity, capacity_parts = capacity_parts,
      as_of = 0, units = 0, parts = 0,
    }
  end

  local function level_room(counter)
    return counter.capacity - counter.units - (counter.parts > counter.capacity_parts and 1 or 0)
  end

  -- Raises a level, but not above twice the capacity.
  local function raise(counter, units)
    local most, most_parts = 2 * counter.capacity, 2 * counter.capacity_parts
    if most_parts >= counter.length then
      most, most_parts = most + 1, most_parts - counter.length
    end
    local room, room_parts = less(most, most_parts, counter.units, counter.parts, counter.length)
    if units <= room then
      counter.units = counter.units + units
    elseif room > 0 or room_parts > 0 then
      counter.units, counter.parts = most, most_parts
    end
  end

  -- When a level will be zero, or a little later.
  local function level_end(counter)
    local time = (counter.units * counter.length + counter.parts) / counter.limit
    return min(counter.as_of + ceil(time * (1 + 2 ^ -50)) + 1, 2 ^ 52)
  end

  local function token_bucket()
    local kind = { room = level_room, owe = raise }

    function kind.read(body, at)
      local limit, length, capacity, after = unpack_bytes('<I6I6I6', body, at)
      return new_level(limit, length, capacity, 0), after
    end

    function kind.stand(counter, state, now)
      counter.as_of = now
      if not state then
        return
      end
      local as_of = state.ends - state.first
      counter.units, counter.parts = leak(counter, state.second, state.third, now - as_of)
      if counter.units > 0 or counter.parts > 0 then
        counter.as_of = max(as_of, now)
      end
    end

    function kind.take(counter, units)
      counter.units = counter.units + units
    end

    -- What cannot have leaked out since.
    function kind.give(counter, units, taken)
      local given, given_parts = leak(counter, units, 0, counter.as_of - taken)
      counter.units, counter.parts = less(counter.units, counter.parts, given, given_parts, counter.length)
    end

    function kind.ends(counter)
      return (counter.units > 0 or counter.parts > 0) and level_end(counter) or nil
    end

    function kind.numbers(counter, ends)
      return write(ends - counter.as_of) .. write(counter.units) .. write(counter.parts)
    end

    return kind
  end

  -- Its units are stored doubled, and one more if several takes may have happened
  -- at the same time, so that none can be told to be the last.
  local function leaky_bucket()
    local kind = { room = level_room }

    function kind.read(body, at)
      local limit, length, capacity, capacity_parts, after = unpack_bytes('<I6I6I6I6', body, at)
      return new_level(limit, length, capacity, capacity_parts), after
    end

    -- The level at present, and that of the last take.
    function kind.stand(counter, state, now)
      counter.now, counter.as_of = now, now
      if not state then
        return
      end
      local last = { as_of = state.ends - state.first, units = floor(state.second / 2) }
      last.parts, last.shared = state.third, state.second % 2 == 1
      counter.last = last
      counter.units, counter.parts = leak(counter, last.units, last.parts, now - last.as_of)
      if counter.units > 0 or counter.parts > 0 then
        counter.as_of = max(last.as_of, now)
      end
    end

    local function move(counter)
      counter.moved = true
      counter.shared = counter.last ~= nil and counter.last.as_of >= counter.now
    end

    function kind.take(counter, units)
      if units > 0 then
        counter.units = counter.units + units
        move(counter)
      end
    end

    function kind.owe(counter, units)
      raise(counter, units)
      move(counter)
    end

    -- The slots of the last take, and of no other: those behind it are promised.
    function kind.give(counter, units, taken)
      local last = counter.last
      if last and last.as_of == taken and not last.shared then
        last.units, last.parts = less(last.units, last.parts, units, 0, counter.length)
      end
    end

    function kind.ends(counter)
      local last = counter.last
      if not counter.moved then
        local units, parts = 0, 0
        if last then
          units, parts = leak(counter, last.units, last.parts, counter.now - last.as_of)
        end
        if units == 0 and parts == 0 then
          return nil
        end
        counter.as_of, counter.units, counter.parts = last.as_of, last.units, last.parts
        counter.shared = last.shared
      end
      return level_end(counter)
    end

    function kind.numbers(counter, ends)
      local doubled = counter.units * 2 + (counter.shared and 1 or 0)
      return write(ends - counter.as_of) .. write(doubled) .. write(counter.parts)
    end

    return kind
  end

  return number == 5 and token_bucket() or leaky_bucket()
end
