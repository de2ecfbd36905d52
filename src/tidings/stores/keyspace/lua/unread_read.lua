#!lua
-- unread_read: take the messages that a member has read out of the unread set.
-- Atomic because sets, mark, filters and totals must move together, in the order of the member's versions.
-- KEYS  inbox  mark  unread
-- ARGV  epoch  conversation_id  version  cursor  seen  ranges  cap  ttl_s  token  [seq ...]
--       version: of the state after this change, 0: only `seen` rises; seen: nothing at or below counts; token: of the
--       marker of this change, which has followed now, '': it has none; seqs: newly read above it
-- returns {state, shown, is_capped, total, first, read_seq, mentions, first_mention, all_mentions}
--         state 1 warm, 0 this conversation is COLD, -1 all of the user is; total -1: not known now, or some are large
-- cost O(log n + removed)
-- include mark
-- include whole
-- include marker
local inbox, mark, unread = KEYS[1], KEYS[2], KEYS[3]
local id, version, new_seen, cap = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[7])
local new_cursor, new_ranges, has_seqs = ARGV[4], ARGV[6], #ARGV > 9
local has_marker = ARGV[9] ~= ''

local t = totals_of(mark, ARGV[1])
if not t then
  if has_marker then
    remove_marker(mark, redis.call('HGET', mark, ':put'), ARGV[9])
  end
  note_cold(mark, id, 0, ARGV[8])
  return {-1, 0, 0, -1, 0, 0, 0, 0, 0}
end
if has_marker then
  t.put = remove_marker(mark, t.put, ARGV[9])
end
local packed = redis.call('HGET', mark, id)
if not packed then
  if redis.call('HEXISTS', mark, '~' .. id) == 1 then
    redis.call('HSET', mark, '~' .. id, next_gen(mark))
  end
  return {0, 0, 0, -1, 0, 0, 0, 0, 0}
end
local held, cursor, seen, count, first, floor, day, mentions, first_mention, flags, ranges =
  string.match(packed, '^%[(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(.*)%]$')
held, seen, count, first, floor = tonumber(held), tonumber(seen), tonumber(count), tonumber(first), tonumber(floor)
mentions, first_mention = tonumber(mentions), tonumber(first_mention)
local before, mentions_before = floor > seen and cap or count, mentions

-- A change of its own shows the totals, so they must be whole: another marker may be overdue.
local function answer()
  if has_marker and not is_whole(inbox, mark, t, cap) then
    return {-1, 0, 0, -1, 0, 0, 0, 0, 0}
  end
  local is_capped = floor > seen
  local total = t.cold + t.large > 0 and -1 or t.unread - t.quiet
  return {1, is_capped and cap or count, is_capped and 1 or 0, total, first,
    tonumber(cursor), mentions, first_mention, t.mentions}
end

if version == 0 then
  version, new_cursor, new_ranges = held, cursor, ranges
end
if version < held or (version == held and new_seen <= seen) then
  return answer()
end
new_seen = math.max(new_seen, seen)

-- A version was missed, or a set is not what the mark says. Or some were read one by one while others had been
-- trimmed off the set: how many of those there are is not known here.
local is_lost = redis.call('ZCARD', unread) ~= count
  or (mentions > 0 and redis.call('ZCARD', unread .. ':@') ~= mentions)
if version > held + 1 or is_lost or (has_seqs and floor > new_seen) then
  withdraw(inbox, t, id, packed, cap)
  t.cold = t.cold + 1
  keep_totals(mark, t)
  redis.call('HSET', mark, '~' .. id, next_gen(mark))
  redis.call('HDEL', mark, id)
  return {0, 0, 0, -1, 0, 0, 0, 0, 0}
end

-- Take out of one set what is read. Answers how many are left.
local function left_in(set, size)
  if size == 0 then
    return 0
  end
  if tonumber(redis.call('ZRANGE', set, -1, -1)[1]) <= new_seen then
    redis.call('UNLINK', set)
    return 0
  end
  size = size - redis.call('ZREMRANGEBYSCORE', set, '-inf', new_seen)
  if has_seqs then
    size = size - redis.call('ZREM', set, unpack(ARGV, 10))
  end
  return size
end
count, mentions = left_in(unread, count), left_in(unread .. ':@', mentions)
if floor > new_seen then
  first = first > new_seen and first or 0
else
  first = count > 0 and tonumber(redis.call('ZRANGE', unread, 0, 0)[1]) or 0
end
if mentions ~= mentions_before then
  first_mention = mentions > 0 and tonumber(redis.call('ZRANGE', unread .. ':@', 0, 0)[1]) or 0
end
seen, cursor = new_seen, new_cursor
local shown = floor > seen and cap or count
t.unread, t.mentions = t.unread + shown - before, t.mentions + mentions - mentions_before
if has(flags, 1) then
  t.quiet = t.quiet + shown - before
end
if shown == 0 and before > 0 then
  t.convs = t.convs - 1
  redis.call('ZREM', inbox .. ':unread', id)
end
if mentions == 0 and mentions_before > 0 then
  t.mentioned = t.mentioned - 1
  redis.call('ZREM', inbox .. ':mentions', id)
end
keep_totals(mark, t)
redis.call('HSET', mark, id, string.format('[%d,%s,%d,%d,%d,%d,%s,%d,%d,%s,%s]', version, cursor, seen, count, first,
  floor, day, mentions, first_mention, flags, new_ranges))
return answer()
