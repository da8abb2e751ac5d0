-- Bans, as `Ban` has them: the end is when they are forgotten. Stored are how
-- long before it the last one is over, and how many they are.

local function ban()
  local kind = {}
  -- What passes when no ban lasts is not counted here.
  local UNLIMITED = 549755813887

  function kind.read(body, at)
    local first, longest, after = unpack_bytes('<I6I6', body, at)
    return { first = first, longest = longest, now = 0, over = 0, bans = 0 }, after
  end

  function kind.stand(counter, state, now)
    counter.now = now
    if state then
      counter.over, counter.bans = state.ends - state.first, state.second
    end
  end

  function kind.room(counter)
    return counter.now < counter.over and 0 or UNLIMITED
  end

  function kind.take() end

  function kind.give() end

  function kind.owe(counter, units)
    if units == 0 or counter.now < counter.over then
      return
    end
    if counter.now >= counter.over + counter.longest then
      counter.bans = 0
    end
    counter.over = counter.now + min(counter.longest, counter.first * 2 ^ counter.bans)
    counter.bans = min(counter.bans + 1, 255)
  end

  function kind.ends(counter)
    return counter.bans > 0 and counter.over + counter.longest or nil
  end

  function kind.numbers(counter, ends)
    return write(ends - counter.over) .. write(counter.bans)
  end

  return kind
end
