-- The operations on a long log. In one call it is read once, and written once.

local kind, logs = { summary = summary }, {}

local function drop_first(log)
  local _, units = record(log, 1)
  log.gone[log.first] = true
  log.first = (log.first + 1) % NUMBERS_OF_PIECES
  log.count, log.skipped, log.sum = log.count - 1, log.skipped + 1, log.sum - units
  log.front_time, log.front_at, log.sums = nil, START, nil
end

-- Moves the front to the first entry that is later than `cutoff` and has units.
local function advance(log, cutoff)
  while log.count > 0 do
    local last, units = record(log, 1)
    if last > cutoff and units > 0 then
      local text = piece(log, 1)
      local at, time, passed =
        seek(text, log.front_at, log.front_time or first_time(text), cutoff)
      if at then
        log.front_at, log.front_time, log.sums = at, time, nil
        if passed > 0 then
          set_record(log, 1, last, max(1, units - passed))
          log.sum = log.sum - min(passed, units - 1)
        end
        return
      end
    end
    drop_first(log)
  end
  if log.tail ~= '' then
    local at, time, passed = seek(log.tail, START, first_time(log.tail), cutoff)
    if at then
      log.tail = pack_bytes('<I7', time) .. sub(log.tail, at)
    else
      log.tail, passed = '', log.tail_units
    end
    log.tail_units, log.sum = log.tail_units - passed, log.sum - passed
    log.front_time, log.front_at = time, START
  end
  if log.tail == '' then
    log.front_time, log.front_at = log.newest, START
  end
end

local function read_head(log, head)
  local length, at
  log.newest, log.newest_units, log.sum, log.first, log.front_time, log.front_at,
    log.tail_time, log.tail_units, length, at = unpack_bytes(HEAD, head)
  log.count = length / RECORD_BYTES
  log.records, log.tail = sub(head, at, at + length - 1), sub(head, at + length)
  log.ended = log.newest
  -- What was written by another hand counts as nothing.
  return log.newest_units > 0 and log.count == floor(log.count) and #log.records == length
    and (log.tail == '' or #log.tail >= START)
    and log.tail_time <= log.newest and log.front_time <= log.newest and log.newest <= LATEST
end

-- Reads a log if it is the first time in this call, and forgets what is over. If
-- the clock ran backwards, nothing has gone yet.
function kind.open(charge, key, now)
  local counter = sub(charge.prefix, 1, 3)
  local log = logs[key .. counter]
  if not log then
    -- If the key is no hash, this call fails, and no log is left that could be written later.
    local head = call('HGET', key, counter)
    log = {
      key = key, counter = counter, first = 0, count = 0, gone = {}, pieces = {}, written = {},
      length = charge.length, ended = 0,
    }
    clear(log)
    logs[key .. counter] = log
    if head and (#head < HEAD_BYTES or not read_head(log, head)) then
      log.count = 0
      clear(log)
    end
    local cutoff = now - charge.length
    if log.sum == 0 or log.newest <= cutoff then
      clear(log)
    elseif log.front_time <= cutoff then
      advance(log, cutoff)
    end
  end
  charge.log, charge.now = log, now
end

function kind.read(charge, body, at)
  charge.limit, charge.length, at = unpack_bytes('<I6I6', body, at)
  return at
end

function kind.room(charge)
  return charge.limit - charge.log.sum
end

-- Puts the newest entry behind the others.
local function push(log)
  if log.tail == '' then
    log.tail = pack_bytes('<I7', log.newest) .. write(log.newest_units)
  else
    log.tail = log.tail .. write(log.newest - log.tail_time) .. write(log.newest_units)
  end
  log.tail_time, log.tail_units = log.newest, log.tail_units + log.newest_units
  if #log.tail >= FULL then
    log.count, log.sums = log.count + 1, nil
    local id = number(log, log.count)
    log.records = log.records .. pack_bytes(RECORD, log.tail_time, log.tail_units)
    log.pieces[id], log.written[id], log.gone[id] = log.tail, true, nil
    log.tail, log.tail_time, log.tail_units = '', 0, 0
  end
end

function kind.take(charge, units)
  local log, time = charge.log, max(charge.now, charge.log.newest)
  if units == 0 then
    return
  elseif log.sum > 0 and time == log.newest then
    log.newest_units = log.newest_units + units
  else
    if log.sum > 0 then
      push(log)
    else
      log.front_time, log.front_at = time, START
    end
    log.newest, log.newest_units = time, units
  end
  log.sum = log.sum + units
end

function kind.owe(charge, units)
  kind.take(charge, min(units, max(0, 2 * charge.limit - charge.log.sum)))
end

-- The entry before the newest one becomes the newest.
local function pull(log)
  while true do
    if log.tail == '' then
      if log.count == 0 then
        clear(log)
        return
      end
      local id, text = number(log, log.count), piece(log, log.count)
      log.tail_time, log.tail_units = record(log, log.count)
      log.tail = log.count > 1 and text
        or pack_bytes('<I7', log.front_time) .. sub(text, log.front_at)
      log.count, log.sums = log.count - 1, nil
      log.front_at = log.count > 0 and log.front_at or START
      log.records = sub(log.records, 1, -1 - RECORD_BYTES)
      log.gone[id], log.pieces[id], log.written[id] = true, nil, nil
    end
    local units, time, ends, before = last_entry(log.tail)
    if units then
      log.newest, log.newest_units = time, units
      log.tail, log.tail_time = sub(log.tail, 1, ends), before
      log.tail_units = log.tail_units - units
      return
    end
    log.tail, log.tail_time, log.tail_units = '', 0, 0
  end
end

function kind.give(charge, units, taken)
  local log, given = charge.log, 0
  if log.sum == 0 or taken < log.front_time or taken > log.newest then
    return
  elseif taken == log.newest then
    given = min(units, log.newest_units)
    log.newest_units = log.newest_units - given
  elseif log.tail ~= '' and taken >= first_time(log.tail) then
    log.tail, given = less_at(log.tail, taken, units)
    log.tail_units = log.tail_units - given
  else
    local i = piece_at(log, taken)
    if i then
      local id, last, all = number(log, i), record(log, i)
      log.pieces[id], given = less_at(piece(log, i), taken, min(units, all))
      log.written[id] = true
      set_record(log, i, last, all - given)
    end
  end
  log.sum = log.sum - given
  if log.newest_units == 0 then
    pull(log)
  end
  if log.sum > 0 and given > 0 then
    advance(log, log.front_time - 1)
  end
end

-- Forgets a log, or all of its principal.
function kind.reset(charge)
  local all = charge.op == RESET_ALL
  if all then
    call('PEXPIRE', charge.log.key, 0)
  end
  for _, log in pairs(logs) do
    if log == charge.log or all and log.key == charge.log.key then
      clear(log)
      log.changed, log.ended = true, 0
    end
  end
end

local function commit(log, now)
  local gone = {}
  for id in pairs(log.gone) do
    gone[#gone + 1] = log.counter .. pack_bytes('<I3', id)
  end
  if log.sum == 0 then
    gone[#gone + 1] = log.counter
  else
    local records = sub(log.records, log.skipped * RECORD_BYTES + 1)
    local head = pack_bytes(HEAD, log.newest, log.newest_units, log.sum, log.first,
      log.front_time, log.front_at, log.tail_time, log.tail_units, #records)
    local all = { log.counter, head .. records .. log.tail }
    for id in pairs(log.written) do
      all[#all + 1], all[#all + 2] = log.counter .. pack_bytes('<I3', id), log.pieces[id]
    end
    call('HSET', log.key, unpack(all))
  end
  if #gone > 0 then
    call('HDEL', log.key, unpack(gone))
  end
  local ends = log.newest + log.length
  if log.sum > 0 and ends - ends % MOVED > log.ended + log.length then
    local needed = ceil((ends - now) / 1000)
    if call('PTTL', log.key) < needed + SOON then
      call('PEXPIRE', log.key, needed + OUTLIVES)
    end
  end
end

-- Writes what the bodies of this call have changed.
function kind.commit(now)
  for _, log in pairs(logs) do
    if log.changed then
      commit(log, now)
    end
  end
end

return kind
end
