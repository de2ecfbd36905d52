#!lua
-- inbox_index: show a batch of one conversation to one member: inbox order, unread, totals.
-- Atomic because inbox, unread set, mark and totals must move together, and a mark must not be read half-built.
-- KEYS  inbox  mark  unread  ws
-- ARGV  epoch  conversation_id  score_ms  cap  unread_ttl_s  now_ms  removed_count  [removed_seq ...  seq ...]
--       score_ms 0: the inbox does not move; now_ms 0: leases are not wanted; seqs are those that count for this member
-- returns {state, shown, is_capped, total, leases, version}   state 1 warm, 0 this conversation is COLD, -1 all of the
--         user is; version: of the mark, and of the status that it was made from; total -1: not known now. A COLD one
--         is recorded as changed: a rebuild under way takes it in.
-- cost O(seqs log n)
-- include jitter
local inbox, mark, unread, ws = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, id, score, cap = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local unread_ttl_s, now_ms, removed_count = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id)
local leases = {}
if now_ms > 0 then
  leases = redis.call('ZRANGE', ws, now_ms, '+inf', 'BYSCORE')
end

local function user_is_cold()
  if score >= tonumber(redis.call('HGET', mark, '+' .. id) or 0) then
    redis.call('HSET', mark, '+' .. id, ARGV[3])
  end
  if redis.call('HLEN', mark) == 1 then
    redis.call('EXPIRE', mark, unread_ttl_s)
  end
  return {-1, 0, 0, -1, leases, 0}
end
if m[1] ~= epoch or not (m[2] and m[3] and m[4] and m[5]) then
  return user_is_cold()
end

local size, total, convs, cold = tonumber(m[2]), tonumber(m[3]), tonumber(m[4]), tonumber(m[5])
local fields = {}
local is_new = score > 0 and redis.call('ZADD', inbox, 'GT', score, id) == 1
if is_new then
  fields = {'*', size + 1}
  if size == 0 then
    redis.call('EXPIRE', inbox, unread_ttl_s)
  end
end

-- A conversation that has no mark, or whose set is not what its mark says, is COLD: it is taken out of the totals.
local function go_cold(shown)
  redis.call('UNLINK', unread) -- an install puts another in place; this one may have been made anew, without an expiry
  local gen = redis.call('HINCRBY', mark, ':gen', 1)
  for _, part in ipairs({':cold', cold + 1, ':unread', total - shown, ':convs', convs - (shown > 0 and 1 or 0),
    '~' .. id, string.format('%.0f', gen)}) do
    fields[#fields + 1] = part
  end
  redis.call('HSET', mark, unpack(fields))
  redis.call('HDEL', mark, id)
  return {0, 0, 0, -1, leases, 0}
end

if not m[6] then
  if is_new then
    return go_cold(0)
  end
  if redis.call('HEXISTS', mark, '~' .. id) == 1 then
    redis.call('HSET', mark, '~' .. id, string.format('%.0f', redis.call('HINCRBY', mark, ':gen', 1)))
  elseif redis.call('ZSCORE', inbox, id) then
    redis.call('HDEL', mark, '*') -- its mark was lost, and the totals with it
    return user_is_cold()
  end
  return {0, 0, 0, -1, leases, 0}
end
if is_new then
  redis.call('HDEL', mark, '*') -- it has a mark, so the inbox was lost
  return user_is_cold()
end

local version, cursor, seen, count, first, floor, day, ranges =
  string.match(m[6], '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(.*)%]$')
seen, count, first, floor, day = tonumber(seen), tonumber(count), tonumber(first), tonumber(floor), tonumber(day)
local shown = floor > seen and cap or count

local function is_read(seq)
  if seq <= seen then
    return true
  end
  for low, high in string.gmatch(ranges, '(%d+),(%d+)') do
    if seq >= tonumber(low) and seq <= tonumber(high) then
      return true
    end
  end
  return false
end

local add, lowest, is_changed = {}, nil, false
for i = 8 + removed_count, #ARGV do
  local seq = tonumber(ARGV[i])
  if not is_read(seq) then
    if seq > floor then
      add[#add + 1] = ARGV[i] -- the score is the number itself: times may repeat and go back
      add[#add + 1] = ARGV[i]
      lowest = lowest and math.min(lowest, seq) or seq
    elseif seq < first then -- trimmed before it came, but it may be the oldest
      first, is_changed = seq, true
    end
  end
end
local added, removed = 0, 0
if #add > 0 then
  added = redis.call('ZADD', unread, unpack(add))
end
if removed_count > 0 and count + added > 0 then
  for i = 8, 7 + removed_count do
    if floor > seen and not is_read(tonumber(ARGV[i])) then
      return go_cold(shown) -- how many were trimmed is not known, so whether this is still capped is not either
    end
  end
  removed = redis.call('ZREM', unread, unpack(ARGV, 8, 7 + removed_count))
end
if #add > 0 or (removed_count > 0 and count > 0) then
  local n = redis.call('ZCARD', unread)
  if n ~= count + added - removed then
    return go_cold(shown)
  end
  if removed > 0 then
    local left = redis.call('ZRANGE', unread, 0, 0)[1]
    first = left and tonumber(left) or 0
  elseif added > 0 and (count == 0 or lowest < first) then
    first = lowest
  end
  if n > cap then
    floor = tonumber(redis.call('ZRANGE', unread, n - cap - 1, n - cap - 1)[1])
    redis.call('ZREMRANGEBYRANK', unread, 0, n - cap - 1)
    n = cap
  end
  local today = math.floor(score / 86400000)
  if count == 0 or (today - day) * 172800 > unread_ttl_s then
    day = math.max(today, day)
    local ttl_s = jittered(unread_ttl_s)
    redis.call('EXPIRE', unread, ttl_s)
    redis.call('EXPIRE', mark, ttl_s)
    redis.call('EXPIRE', inbox, ttl_s)
  end
  is_changed = is_changed or added > 0 or removed > 0
  count = n
end
if is_changed then
  local before = shown
  shown = floor > seen and cap or count
  total = total + shown - before
  convs = convs + (shown > 0 and 1 or 0) - (before > 0 and 1 or 0)
  redis.call('HSET', mark, ':unread', total, ':convs', convs, id,
    string.format('[%s,%s,%d,%d,%d,%d,%d,%s]', version, cursor, seen, count, first, floor, day, ranges))
end
return {1, shown, floor > seen and 1 or 0, cold > 0 and -1 or total, leases, tonumber(version)}
