-- Units in flight at the same time, as `Concurrency` has them, but each node's
-- apart. What a node holds counts for 15 seconds, unless it says again that it
-- holds it; so what a crashed node held comes back. The end is that of the last
-- node.
--
-- Stored are how many seconds before it the first node may end, the units of all,
-- and a block of a record for each node: who it is, its units, and the second when
-- they end. All records have one length, so a decision finds and changes its own
-- and leaves the others, however many they are.

local function concurrency()
  local kind = {}
  local SECOND, LEASE_S = 1000000, 15
  local RECORD, LENGTH, MOST = '<I4I5I4', 13, 1099511627775

  function kind.read(charge, body, at)
    charge.limit, charge.node, at = unpack_bytes('<I6c4', body, at)
    return at
  end

  -- The records that still count, their units, and when the first of them ends.
  local function living(block, now)
    local kept, sum, first_s = {}, 0, nil
    for at = 1, #block - LENGTH + 1, LENGTH do
      local _, units, ends_s = unpack_bytes(RECORD, block, at)
      if ends_s * SECOND > now then
        kept[#kept + 1] = sub(block, at, at + LENGTH - 1)
        sum, first_s = sum + units, min(first_s or ends_s, ends_s)
      end
    end
    return concat(kept), sum, first_s or 0
  end

  -- Where the record of this node begins.
  local function find_own(block, node)
    local at = 1
    repeat
      at = find_text(block, node, at, true)
      if at and at % LENGTH == 1 then
        return at
      end
      at = at and at + 1
    until not at
  end

  function kind.stand(charge, now, ends, value, at)
    charge.now, charge.block, charge.sum, charge.own = now, '', 0, 0
    charge.first_s, charge.last_s, charge.own_at = 0, 0, nil
    if not ends then
      return at
    end
    local size, sooner_s
    sooner_s, at = read(value, at)
    charge.sum, size, at = read_two(value, at)
    charge.last_s = floor(ends / SECOND)
    charge.first_s = charge.last_s - sooner_s
    charge.block = sub(value, at, at + size - 1)
    if charge.first_s * SECOND <= now or size % LENGTH ~= 0 then
      charge.block, charge.sum, charge.first_s = living(charge.block, now)
    end
    charge.own_at = find_own(charge.block, charge.node)
    if charge.own_at then
      charge.own = (unpack_bytes('<I5', charge.block, charge.own_at + 4))
    end
    return at + size
  end

  -- The asking node holds so many units, until then.
  local function hold(charge, units, ends_s)
    local at, block = charge.own_at, charge.block
    local before = at and sub(block, 1, at - 1) or block
    local after = at and sub(block, at + LENGTH) or ''
    local own = units > 0 and charge.node .. pack_bytes('<I5I4', units, ends_s) or ''
    if units > 0 then
      charge.first_s = block == '' and ends_s or min(charge.first_s, ends_s)
      charge.last_s = max(charge.last_s, ends_s)
    end
    charge.block, charge.own_at = before .. own .. after, units > 0 and #before + 1 or nil
    charge.sum, charge.own = charge.sum + units - charge.own, units
  end

  -- The asking node holds so many units from now on.
  local function lease(charge, units)
    hold(charge, min(units, MOST), floor(charge.now / SECOND) + LEASE_S)
  end

  -- It says how many it holds. Of those that it has asked for beside it does not know
  -- how many were taken: so many stay taken.
  function kind.renew(charge, units, asked)
    lease(charge, max(units, min(charge.own, units + asked)))
  end

  function kind.room(charge)
    return charge.limit - charge.sum
  end

  function kind.take(charge, units)
    lease(charge, charge.own + units)
  end

  -- They are given back one for one, so none are added beside.
  function kind.owe() end

  function kind.give(charge, units)
    if charge.own_at then
      local _, _, ends_s = unpack_bytes(RECORD, charge.block, charge.own_at)
      hold(charge, max(0, charge.own - units), ends_s)
    end
  end

  function kind.ends(charge)
    return charge.sum > 0 and charge.last_s * SECOND or nil
  end

  function kind.numbers(charge)
    return write(max(0, charge.last_s - charge.first_s)) .. write(max(0, charge.sum))
      .. write(#charge.block) .. charge.block
  end

  -- What the state looks like to those who ask: without the records.
  function kind.told(charge)
    return write(0) .. write(max(0, charge.sum)) .. write(0)
  end

  return kind
end
