-- A sliding log that may be long, as `SlidingLog` has it. It lies in a key of its
-- own, a hash that all long logs of a principal share, so that a take costs what
-- it adds and not what is there.
--
-- Under the counter's id lies the head, and under the id and a number of three
-- bytes lie full pieces. A piece is the time of its first entry in seven bytes, and
-- then the units of each entry, with the microseconds until the next one between
-- them. The newest entry and the piece that is being filled are in the head, and
-- so is a record of each full piece: the time of its last entry, and the units in
-- it that count. So what is over is forgotten, and what frees a unit is found,
-- without reading all pieces.
--
-- In one call a log is read once and written once. A piece that is missing counts
-- as one entry at its end.

local function long_log()

-- The newest entry and its units; all units; the number of the first piece; the
-- time of the first entry that counts, and where it is in its piece; the time of
-- the last entry in the unfinished piece, and its units; the bytes of the records.
local HEAD, HEAD_BYTES = '<I7I3I4I3I7I2I7I3I2', 38
local RECORD, RECORD_BYTES = '<I7I3', 10
-- A piece is full at so many bytes, and begins to be read at this one.
local FULL, START = 512, 8
local NUMBERS_OF_PIECES = 16777216
-- How long its key outlives a log, in milliseconds. It is looked at when the end
-- of the log has moved by so many microseconds.
local OUTLIVES, SOON, MOVED = 60000, 30000, 15000000

local PEEK, GIVE, RESET_ALL, CANCEL = 0, 3, 7, 8
-- No log is newer.
local LATEST = 2861589506580480

local function clear(log)
  for i = 0, log.count - 1 do
    log.gone[(log.first + i) % NUMBERS_OF_PIECES] = true
  end
  log.first = (log.first + log.count) % NUMBERS_OF_PIECES
  log.count, log.skipped, log.records = 0, 0, ''
  log.tail, log.tail_time, log.tail_units = '', 0, 0
  log.newest, log.newest_units, log.sum = 0, 0, 0
  log.front_time, log.front_at, log.sums = nil, START, nil
end

local function record(log, i)
  return unpack_bytes(RECORD, log.records, (log.skipped + i - 1) * RECORD_BYTES + 1)
end

local function set_record(log, i, last, units)
  local at = (log.skipped + i - 1) * RECORD_BYTES
  log.records = sub(log.records, 1, at) .. pack_bytes(RECORD, last, units)
    .. sub(log.records, at + RECORD_BYTES + 1)
  log.sums = nil
end

local function number(log, i)
  return (log.first + i - 1) % NUMBERS_OF_PIECES
end

local function piece(log, i)
  local id = number(log, i)
  local text = log.pieces[id]
  if not text then
    text = call('HGET', log.key, log.counter .. pack_bytes('<I3', id))
    if not text or #text < START then
      local last, units = record(log, i)
      text = pack_bytes('<I7', last) .. write(units)
    end
    log.pieces[id] = text
  end
  return text
end

local function first_time(text)
  return (unpack_bytes('<I7', text))
end

-- The first entry from `at` on that is later than `cutoff` and has units: where
-- it is and when, and the units before it.
local function seek(text, at, time, cutoff)
  local passed, units, gap, after = 0, nil, nil, nil
  while at <= #text do
    units, after = read(text, at)
    if time > cutoff and units > 0 then
      return at, time, passed
    end
    gap, at = read(text, after)
    passed, time = passed + units, time + gap
  end
  return nil, nil, passed
end

-- Where units that are so many from the front on are reached: the units before
-- that entry, and its time.
local function reach(text, at, time, passed, wanted)
  local units, gap, after
  while at <= #text do
    units, after = read(text, at)
    if passed + units >= wanted then
      break
    end
    gap, at = read(text, after)
    passed, time = passed + units, time + gap
  end
  return passed, time
end

-- Takes up to so many units from the entry at `time`.
local function less_at(text, time, most)
  local at, here, units, gap, after = START, first_time(text), nil, nil, nil
  while at <= #text and here <= time do
    units, after = read(text, at)
    if here == time then
      local given = min(units, most)
      return sub(text, 1, at - 1) .. write(units - given) .. sub(text, after), given
    end
    gap, at = read(text, after)
    here = here + gap
  end
  return text, 0
end

-- The last entry that has units: these and when, where the entry before it ends
-- and when that was.
local function last_entry(text)
  local at, time, ends, before, after, gap = START, first_time(text), 0, 0, nil, nil
  local units, found, found_at, found_ends, found_before
  while at <= #text do
    units, after = read(text, at)
    if units > 0 then
      found, found_at, found_ends, found_before = units, time, ends, before
    end
    ends, before = after - 1, time
    gap, at = read(text, after)
    time = time + gap
  end
  return found, found_at, found_ends, found_before
end

-- The first full piece, or the place behind them, of which `is_reached` says so.
local function first_piece(log, is_reached)
  local low, high = 1, log.count + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if is_reached(middle) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The full piece that has the entry at `time`, if any has.
local function piece_at(log, time)
  local i = first_piece(log, function(i)
    return time <= record(log, i)
  end)
  return i <= log.count and i or nil
end

