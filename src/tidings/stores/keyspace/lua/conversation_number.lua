#!lua
-- conversation_number: hand out the next numbers of a conversation, one per id that has none yet.
-- Atomic because two nodes must never get the same number, and because the open work of a node must be recorded before
-- any node can see the number used.
-- KEYS  conv  sent_now  sent_before
-- ARGV  epoch  node_id  open_from  change  generation  sent_ttl_s  conv_ttl_s  [id ...]
--       open_from: lowest number this node still has unfinished here, 0 = none; change: the sum of 1 = of the members,
--       2 = with a delete among them, 4 = with a reaction or pin; id: sender:message_id, '' = no dedupe
-- returns {} = SEED first (no counter, or one of another epoch), else
--         {members_seq, first_seq, first_at, counter_id, position, seq, at, ...}: the ids at these positions are known
--         already; the others have first_seq, first_seq + 1, ... in their order, and all of them the time first_at.
--         Times never go back, and do not run ahead of the clock: several numbers may share a millisecond. After the
--         clock was set back each call is a millisecond later: readers know by its time that a message is newer.
--         Numbers of one counter_id are given once; a counter that was lost comes back under another one.
-- cost O(ids)
local conv, sent_now, sent_before = KEYS[1], KEYS[2], KEYS[3]
local epoch, node_id, open_from, generation = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[5]
local first_id = 8

local c = redis.call('HMGET', conv, 'seq', 'at', 'epoch', 'members_seq', 'generation', 'counter_id')
if not c[1] or c[3] ~= epoch then
  return {}
end
local seq, at = tonumber(c[1]), tonumber(c[2])

local ids, has_ids = {}, false
for i = first_id, #ARGV do
  ids[#ids + 1] = ARGV[i]
  has_ids = has_ids or ARGV[i] ~= ''
end
local now_hits, before_hits = {}, {}
if has_ids then
  now_hits = redis.call('HMGET', sent_now, unpack(ids))
  before_hits = redis.call('HMGET', sent_before, unpack(ids))
end

local time = redis.call('TIME')
local first_seq = seq + 1
local clock_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local first_at = clock_ms >= at and clock_ms or at + 1
local answer = {tonumber(c[4]), first_seq, first_at, c[6] or ''}
local writes = {}
local taken = 0
for i = 1, #ids do
  local hit = now_hits[i] or before_hits[i]
  if hit and ids[i] ~= '' then
    local known_seq, known_at = string.match(hit, '^(%d+):(%d+)$')
    answer[#answer + 1] = i - 1
    answer[#answer + 1] = tonumber(known_seq)
    answer[#answer + 1] = tonumber(known_at)
  else
    if ids[i] ~= '' then
      writes[#writes + 1] = ids[i]
      writes[#writes + 1] = string.format('%d:%d', first_seq + taken, first_at)
    end
    taken = taken + 1
  end
end
if taken == 0 then
  return answer
end

local last_seq = first_seq + taken - 1
local from = open_from > 0 and math.min(open_from, first_seq) or first_seq
local fields = {'seq', string.format('%d', last_seq), 'at', string.format('%d', first_at),
  'open:' .. node_id, string.format('%d-%d', from, last_seq)}
local change = tonumber(ARGV[4])
if change % 2 == 1 then
  fields[#fields + 1] = 'members_seq'
  fields[#fields + 1] = string.format('%d', first_seq)
end
if change % 4 >= 2 then
  fields[#fields + 1] = 'deleted_seq'
  fields[#fields + 1] = string.format('%d', last_seq)
end
if change >= 4 then
  fields[#fields + 1] = 'summaries'
  fields[#fields + 1] = '1'
end
if c[5] ~= generation then
  fields[#fields + 1] = 'generation'
  fields[#fields + 1] = generation
end
redis.call('HSET', conv, unpack(fields))
if #writes > 0 then
  redis.call('HSET', sent_now, unpack(writes))
end
if c[5] ~= generation then
  redis.call('EXPIRE', sent_now, ARGV[6])
  redis.call('EXPIRE', conv, ARGV[7])
end
return answer
