-- A field: all states of one principal, one after the other.
--
-- Redis keeps a hash compact as long as no value in it is longer than 64 bytes. So
-- a longer value lies in several fields: the first piece ends with the number of
-- all pieces and 255, which no state ends with; the others lie under the field's
-- name and their number.
--
-- What several bodies of a call share is read once, and written once at its end.

-- What ends later is said to end here.
local LATEST = 2861589506580480
-- A clock that is set back by less than this finds nothing forgotten.
local GRACE = 1000000
-- How long a key lives is looked up when a state ends in a later one of these steps.
local STEP = 900000000
-- One of so many writes looks for what is over, at most once in a call: one that
-- makes a field among so many, and another one only if of a few that it tries so
-- many are over.
local CLEAN_EVERY = 32
local CLEAN_AT_MOST = 128
local TRIES, TOO_MANY = 8, 2
-- The longest value of a compact hash, and the most pieces of a longer one: to
-- read more would take too long, so the last one has all the rest.
local COMPACT, MOST_PIECES = 64, 10

-- By kind, how many numbers a state has after its end, in one byte for each. Kinds from
-- 10 on are those of newer releases: their only number is the length of a block.
local NUMBERS = '\2\2\1\4\3\3\1\2\3\1\1\1\1\1'

-- When the state at `from` ends, and where the next one begins. What cannot be
-- read, or ends when no state does, has ended, and nothing comes after it.
local function skip(value, from)
  local head = byte(value, from + 3) or 0
  local third = head % 16
  local kind = (head - third) / 16
  local numbers = kind > 0 and byte(NUMBERS, kind)
  if not numbers then
    return 0, #value + 1
  end
  local ends, at = end_of(value, from, third)
  if ends > 2 * LATEST then
    return 0, #value + 1
  end
  local number
  for _ = 1, numbers do
    number, at = read(value, at)
  end
  -- Of these kinds the last number is the length of a block.
  local has_block = kind == 2 or kind == 4 or kind == 7 or kind >= 9
  return ends, has_block and at + number or at
end

-- Where the state with this id and head begins, if there is one. It is looked
-- for where it is expected, and then everywhere.
local function find(value, prefix, expected)
  if sub(value, expected, expected + 3) == prefix then
    return expected
  end
  local from = 1
  while from <= #value do
    if sub(value, from, from + 3) == prefix then
      return from
    end
    local _
    _, from = skip(value, from)
  end
end

-- The fields that several bodies of this call may need, by key and name, if a key is.
local shared

-- What few calls need: to define functions takes time.
local rare
local function define_rare()
  -- Into how many pieces so long a value is cut.
  local function pieces_of(length)
    return length <= COMPACT and 1 or min(MOST_PIECES, ceil((length + 2) / COMPACT))
  end

  -- A value of which this is the first piece.
  local function whole(key, name, first)
    local all = { sub(first, 1, -3) }
    for i = 1, min(MOST_PIECES, byte(first, -2) or 0) - 1 do
      all[i + 1] = call('HGET', key, name .. char(i)) or ''
    end
    return concat(all)
  end

  local function stored(key, name)
    local value = call('HGET', key, name) or ''
    return byte(value, -1) == 255 and whole(key, name, value) or value
  end

  -- Adds the names of a field's pieces from this one on.
  local function add_names(names, name, from, pieces)
    for i = from, pieces - 1 do
      names[#names + 1] = i == 0 and name or name .. char(i)
    end
    return names
  end

  local function remove(key, names)
    if #names > 0 then
      call('HDEL', key, unpack(names))
    end
  end

  -- Stores a value in place of another.
  local function store(key, name, value, before)
    if value == '' then
      remove(key, add_names({}, name, 0, pieces_of(#before)))
      return
    end
    local pieces = pieces_of(#value)
    if pieces == 1 then
      call('HSET', key, name, value)
    else
      local at = COMPACT - 1
      local all = { name, sub(value, 1, at - 1) .. char(pieces, 255) }
      for i = 1, pieces - 1 do
        local last = i == pieces - 1 and #value or at + COMPACT - 1
        all[2 * i + 1], all[2 * i + 2] = name .. char(i), sub(value, at, last)
        at = last + 1
      end
      call('HSET', key, unpack(all))
    end
    remove(key, add_names({}, name, pieces, pieces_of(#before)))
  end

  -- Whether nothing in a value counts any more.
  local function is_over(value, now)
    local from, latest = 1, 0
    while from <= #value do
      local ends
      ends, from = skip(value, from)
      latest = max(latest, ends)
    end
    return latest + GRACE <= now
  end

  -- Removes those of some fields of which nothing counts any more. A piece counts
  -- as long as its field does.
  local function remove_over(key, found, now)
    local over = {}
    for i = 1, #found, 2 do
      local name, value = found[i], found[i + 1]
      local field = sub(name, 1, 7)
      if name ~= field or byte(value, -1) == 255 then
        value = stored(key, field)
      end
      if is_over(value, now) then
        over[#over + 1] = name
        if #value > COMPACT then
          add_names(over, field, 0, pieces_of(#value))
        end
        if #over > 1000 then
          remove(key, over)
          over = {}
        end
      end
    end
    remove(key, over)
  end

  -- Whether so many of a few fields are over that it is worth while to look at more.
  local function is_crowded(key, now)
    local found, over = call('HRANDFIELD', key, TRIES, 'WITHVALUES'), 0
    for i = 1, #found, 2 do
      if #found[i] == 7 and byte(found[i + 1], -1) ~= 255 and is_over(found[i + 1], now) then
        over = over + 1
      end
    end
    return over >= TOO_MANY
  end

  -- Removes fields of which nothing counts any more. It looks at a bounded number
  -- of them, at others each time: a script must not take long.
  local function clean(key, is_new, now)
    if is_new or is_crowded(key, now) then
      remove_over(key, call('HRANDFIELD', key, CLEAN_AT_MOST, 'WITHVALUES'), now)
    end
  end

  -- A field that several bodies of the call may need.
  local function fetch_shared(fields, key, name)
    local field = fields[name]
    if not field then
      local value = stored(key, name)
      field = { before = value, value = value, ends = 0, ended = 0 }
      fields[name] = field
    end
    return field.value
  end

  rare = { whole = whole, store = store, clean = clean, fetch_shared = fetch_shared }
end

local function rarely()
  if not rare then
    define_rare()
  end
  return rare
end

-- A field's value from now on, by what this call has done so far.
local function fetch(key, name)
  local fields = shared and shared[key]
  if fields then
    return rare.fetch_shared(fields, key, name)
  end
  local value = call('HGET', key, name) or ''
  return byte(value, -1) == 255 and rarely().whole(key, name, value) or value
end

local has_cleaned = false

-- One of so many writes of a field, which ended at `ended` before, looks for what is
-- over.
local function clean(key, name, ended, now)
  if not has_cleaned and (now + byte(name)) % CLEAN_EVERY == 0 then
    has_cleaned = true
    rarely().clean(key, ended + GRACE <= now, now)
  end
end

-- Keeps a field from now on, whose states end at `ends` now and ended at `ended`
-- before: at once, or at the end of the call if other bodies may need it.
local function keep(key, name, value, before, ends, ended, now)
  local fields = shared and shared[key]
  if fields then
    local field = fields[name]
    if field.value == field.before then
      field.ended = ended
    end
    field.value, field.ends = value, ends
    return
  elseif value == before then
    return
  elseif value == '' or #value > COMPACT or #before > COMPACT then
    rarely().store(key, name, value, before)
  else
    call('HSET', key, name, value)
  end
  if value ~= '' then
    if ends - ends % STEP > ended then
      live_until(key, ends, now)
    end
    clean(key, name, ended, now)
  end
end

-- The fields of these keys are kept at the end of the call.
local function share(keys)
  rarely()
  shared = keys
end

-- It is the end.
local function finish(now)
  local keys = shared
  shared = nil
  for key, fields in pairs(keys) do
    for name, it in pairs(fields) do
      keep(key, name, it.value, it.before, it.ends, it.ended, now)
    end
  end
end

return fetch, keep, find, skip, clean, share, finish
