-- What a long log looks like to those who ask it: a short log that says the same to
-- what they ask, so that the answer is short, too. For those who go on counting by
-- it, full pieces are a few entries that are as old as the first of each; so they
-- go too early, by a part of the log at most, and never too late.

local GROUPS = 16

-- The state of a short log whose entries begin to count at `base`.
local function short_log(charge, base, sum, block)
  local log = charge.log
  local prefix = log.counter .. char(64 + charge.third)
  local lead, ends = begin_state(prefix, charge.third, log.newest + charge.length)
  return lead .. write(max(0, ends - log.newest)) .. write(max(0, log.newest - base))
    .. write(max(0, sum)) .. write(#block) .. block
end

-- The units of the full pieces up to each.
local function sums_of(log)
  if not log.sums then
    local sums, sum = { [0] = 0 }, 0
    for i = 1, log.count do
      local _, units = record(log, i)
      sum = sum + units
      sums[i] = sum
    end
    log.sums, log.lumps = sums, nil
    log.sum = sum + log.tail_units + log.newest_units
  end
  return log.sums
end

-- The full piece with the first time until which `wanted` units were admitted; how
-- many units have gone before it; and that time.
local function freeing(log, wanted)
  local sums = log.sums
  local i = first_piece(log, function(i)
    return sums[i] >= wanted
  end)
  local text = piece(log, i)
  local at, from = START, first_time(text)
  if i == 1 then
    at, from = log.front_at, log.front_time
  end
  return i, reach(text, at, from, sums[i - 1], wanted)
end

-- The full pieces as a few entries, and when the last of these is. If more than one
-- unit is wanted of them, there is one at the time when they are free.
local function lumps(log, wanted)
  local sums, count, place, passed, time = sums_of(log), log.count, nil, nil, nil
  if count == 0 then
    return '', log.front_time
  elseif wanted > 1 and wanted <= sums[count] then
    place, passed, time = freeing(log, wanted)
  elseif log.lumps then
    return log.lumps, log.lumps_end
  end
  local block, before, here, from = {}, log.front_time, log.front_time, 0
  local function add(units)
    if units > 0 then
      block[#block + 1] = write(max(0, here - before)) .. write(units)
      before = max(before, here)
    end
  end
  local step = ceil(count / GROUPS)
  for i = step, count + step - 1, step do
    local last = min(i, count)
    if place and place <= last then
      add(passed - from)
      here, from, place = time, passed, nil
    end
    add(sums[last] - from)
    here, from = record(log, last) + 1, sums[last]
  end
  block = concat(block)
  if not time then
    log.lumps, log.lumps_end = block, before
  end
  return block, before
end

-- The units of which the time matters when they are free: of those that are wanted
-- now, or would be the next time.
local function wanted_units(charge)
  local cost = charge.op == PEEK and 1 or charge.cost
  local wanted = charge.log.sum + cost - charge.limit
  return cost > charge.limit and 0 or wanted > 0 and wanted or wanted + cost
end

-- A state of a short log with these entries: times and units in turn.
local function state_of(charge, entries)
  local log, block, sum, before, units = charge.log, {}, 0, entries[1], 0
  local last = before
  for i = 1, #entries + 1, 2 do
    local time = entries[i] and min(entries[i], log.newest)
    if units > 0 and (not time or time > last) then
      block[#block + 1] = write(last - before) .. write(units)
      sum, before, units = sum + units, last, 0
    end
    if time then
      last, units = max(last, time), units + max(0, entries[i + 1])
    end
  end
  return short_log(charge, entries[1], sum, concat(block))
end

-- The entry that is given back, or the one before it if nothing remains of it.
local function for_give(charge, entries)
  local log, taken = charge.log, charge.taken
  local text, units = log.tail, nil
  if taken == log.newest then
    if text == '' and log.count > 0 then
      text = piece(log, log.count)
    end
    if text ~= '' then
      local _, time = last_entry(text)
      entries[1] = time or entries[1]
    end
    return
  elseif text == '' or taken < first_time(text) then
    local i = piece_at(log, taken)
    text = i and piece(log, i) or ''
  end
  if text ~= '' and taken >= log.front_time then
    text, units = less_at(text, taken, log.sum - log.newest_units)
    if units > 0 then
      entries[1], entries[2] = taken, units
      entries[3], entries[4] = log.newest, log.sum - units - log.newest_units
    end
  end
end

-- What a log looks like to those who ask it this.
local function summary(charge)
  local log = charge.log
  if log.sum == 0 then
    return ''
  elseif charge.op == GIVE or charge.op == CANCEL then
    local entries = { log.front_time, log.sum - log.newest_units }
    for_give(charge, entries)
    entries[#entries + 1], entries[#entries + 2] = log.newest, log.newest_units
    return state_of(charge, entries)
  end
  local block, before = lumps(log, wanted_units(charge))
  if log.tail ~= '' then
    block = block .. write(max(0, first_time(log.tail) - before)) .. sub(log.tail, START)
    before = log.tail_time
  end
  block = block .. write(max(0, log.newest - before)) .. write(log.newest_units)
  return short_log(charge, log.front_time, log.sum, block)
end

