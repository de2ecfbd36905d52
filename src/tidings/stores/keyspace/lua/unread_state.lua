#!lua
-- unread_state: one conversation's mark, and the totals.
-- Atomic because both must be of one moment.
-- KEYS  inbox  mark
-- ARGV  epoch  conversation_id  cap                      (conversation_id '': the totals alone)
-- returns {} = COLD, else {loud, convs, cold, mentions, mark, id, score, mark, ...}
--         mark '': the conversation is COLD, or not in the inbox; then the large ones, which are not in the totals
-- cost O(1 + large ones)
-- include mark
-- include whole
local inbox, mark = KEYS[1], KEYS[2]
local t = totals_of(mark, ARGV[1])
if not t or not is_whole(inbox, mark, t, ARGV[3]) then
  return {}
end
local answer = {t.unread - t.quiet, t.convs, t.cold, t.mentions, redis.call('HGET', mark, ARGV[2]) or ''}
if t.large > 0 then
  add_large(inbox, mark, answer)
end
return answer
