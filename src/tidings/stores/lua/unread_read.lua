#!lua
-- unread_read: take what a member has read out of the unread set.
-- Atomic because set, mark and totals must move together, in the order of the member's versions.
-- KEYS  mark  unread
-- ARGV  epoch  conversation_id  version  cursor  seen  ranges  cap  ttl_s  [seq ...]
--       version: of the state after this change; seen: nothing at or below counts; seqs: newly read above it
-- returns {state, shown, is_capped, total, first}   state 1 warm, 0 this conversation is COLD, -1 all of the user is
-- cost O(log n + removed)
local mark, unread = KEYS[1], KEYS[2]
local id, version, new_seen, cap = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[7])

local m = redis.call('HMGET', mark, ':epoch', '*', ':unread', ':convs', ':cold', id)
if m[1] ~= ARGV[1] or not m[2] then
  if redis.call('HINCRBY', mark, ':gen', 1) == 1 then
    redis.call('EXPIRE', mark, ARGV[8])
  end
  return {-1, 0, 0, -1, 0}
end
if not m[6] then
  redis.call('HINCRBY', mark, ':gen', 1)
  return {0, 0, 0, -1, 0}
end
local total, convs, cold = tonumber(m[3]), tonumber(m[4]), tonumber(m[5])
local held, cursor, seen, count, first, floor, day =
  string.match(m[6], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ')
held, seen, count, first, floor = tonumber(held), tonumber(seen), tonumber(count), tonumber(first), tonumber(floor)
local before = floor > seen and cap or count
if version < held or (version == held and new_seen <= seen) then
  return {1, before, floor > seen and 1 or 0, cold > 0 and -1 or total, first}
end

local function go_cold()
  redis.call('HSET', mark, ':cold', cold + 1, ':unread', total - before, ':convs', convs - (before > 0 and 1 or 0))
  redis.call('HDEL', mark, id)
  redis.call('HINCRBY', mark, ':gen', 1)
  return {0, 0, 0, -1, 0}
end
if version > held + 1 or redis.call('ZCARD', unread) ~= count then
  return go_cold()
end

new_seen = math.max(new_seen, seen)
if count > 0 then
  -- The set is in the order of seq, since scores grow with it: everything up to new_seen is a run of ranks.
  local highest = tonumber(redis.call('ZRANGE', unread, -1, -1)[1])
  if highest <= new_seen then
    redis.call('UNLINK', unread)
  else
    local rank = redis.call('ZRANK', unread, string.format('%d', new_seen))
    if not rank then
      local low, high = 0, count
      while low < high do
        local middle = math.floor((low + high) / 2)
        if tonumber(redis.call('ZRANGE', unread, middle, middle)[1]) <= new_seen then
          low = middle + 1
        else
          high = middle
        end
      end
      rank = low - 1
    end
    if rank >= 0 then
      redis.call('ZREMRANGEBYRANK', unread, 0, rank)
    end
    if #ARGV > 8 then
      redis.call('ZREM', unread, unpack(ARGV, 9))
    end
  end
  count = redis.call('ZCARD', unread)
end
first = 0
if count > 0 and floor <= new_seen then
  first = tonumber(redis.call('ZRANGE', unread, 0, 0)[1])
end
local shown = floor > new_seen and cap or count
total = total + shown - before
convs = convs + (shown > 0 and 1 or 0) - (before > 0 and 1 or 0)
redis.call('HSET', mark, ':unread', total, ':convs', convs, id,
  string.format('%d %s %d %d %d %d %s %s', version, ARGV[4], new_seen, count, first, floor, day, ARGV[6]))
return {1, shown, floor > new_seen and 1 or 0, cold > 0 and -1 or total, first}
