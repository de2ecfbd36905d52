#!lua
-- receipts_build: take the marks of all members over from the tables; marks of others are removed.
-- Atomic because a mark that moved meanwhile must not be lost: marks only go forward.
-- KEYS  conv  delivered  readby
-- ARGV  epoch  members_seq  ttl_s  [user_id  delivered_seq  read_seq ...]
-- returns how many members were taken over
-- cost O(members log n)
local members, count = {}, 0
for i = 4, #ARGV, 3 do
  members[ARGV[i]] = true
  count = count + 1
  redis.call('ZADD', KEYS[2], 'GT', ARGV[i + 1], ARGV[i])
  redis.call('ZADD', KEYS[3], 'GT', ARGV[i + 2], ARGV[i])
end
for k = 2, 3 do
  for _, user_id in ipairs(redis.call('ZRANGE', KEYS[k], 0, -1)) do
    if not members[user_id] then
      redis.call('ZREM', KEYS[k], user_id)
    end
  end
  redis.call('EXPIRE', KEYS[k], ARGV[3])
end
-- The count of marks stands beside them: lost sets are not taken for a conversation without marks.
redis.call('HSET', KEYS[1], 'ticks', ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. count)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return count
