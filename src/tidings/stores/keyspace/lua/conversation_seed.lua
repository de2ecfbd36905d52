#!lua
-- conversation_seed: raise a conversation's counter to the log, never lower it, and put it into this epoch.
-- Atomic because a number handed out meanwhile must not be handed out again.
-- A counter that was lost may hand out numbers for a second time. So it begins under a new counter_id, and the numbers
-- that ids got from the lost counter are forgotten. After a failover these are as old as the counter, and stay. It is
-- also forgotten whether something was deleted: deleted_seq claims it of all entries up to here, so readers check.
-- Whether the conversation has summaries of reactions and pins is forgotten too, and read from the tables again.
-- A seed belongs to the life of the counter in which it began: whoever reads the log for it first writes `seeding`. A
-- counter that was lost since then may have been seeded and lost again, with entries above what was read.
-- KEYS  conv  sent_now  sent_before
-- ARGV  epoch  seq  at  members_seq  conv_ttl_s  counter_id  seeding
--       seeding: as found there before the log was read, '' = in any life
-- returns seq, or -1 = the counter was lost since the log was read: read it again
-- cost O(1)
local c = redis.call('HMGET', KEYS[1], 'seq', 'at', 'members_seq', 'epoch', 'seeding')
if not c[1] and ARGV[7] ~= '' and c[5] ~= ARGV[7] then
  return -1
end
local seq = math.max(tonumber(c[1] or 0), tonumber(ARGV[2]))
local at = math.max(tonumber(c[2] or 0), tonumber(ARGV[3]))
local members_seq = math.max(tonumber(c[3] or 0), tonumber(ARGV[4]))
if not c[1] then
  redis.call('DEL', KEYS[2], KEYS[3])
end
if not c[1] or c[4] ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'counter_id', ARGV[6], 'deleted_seq', string.format('%d', seq + 1))
  redis.call('HDEL', KEYS[1], 'summaries')
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'seq', string.format('%d', seq), 'at', string.format('%d', at),
  'members_seq', string.format('%d', members_seq))
redis.call('HDEL', KEYS[1], 'seeding')
redis.call('EXPIRE', KEYS[1], ARGV[5])
return seq
