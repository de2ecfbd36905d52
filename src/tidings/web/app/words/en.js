// The words of the page in English. A value with forms is chosen by a count. `{name}` stands for a fact.

export const EN = {
  // names of things
  account: 'Account', conversation: 'Conversation', conversations: 'Conversations', message: 'Message', messages: 'Messages',
  people: 'People', members: 'Members', inbox: 'Inbox', archived: 'Archived', search: 'Search', results: 'Results', emoji: 'Emoji',
  notifications: 'Notifications', preferences: 'Preferences', name: 'Name', token: 'Token', filters: 'Filters', suggestions: 'Suggestions',
  'kind.direct': 'Direct', 'kind.group': 'Group', 'kind.channel': 'Channel', kindOf: 'Kind',
  'role.owner': 'Owner', 'role.admin': 'Admin', 'role.member': 'Member',
  'roleIs.owner': 'an owner', 'roleIs.admin': 'an admin', 'roleIs.member': 'member',
  'tick.sending': 'Sending', 'tick.sent': 'Sent', 'tick.delivered': 'Delivered', 'tick.read': 'Read', 'tick.failed': 'Not sent',
  'tick.deliveredAll': 'Delivered to everyone', 'tick.readAll': 'Read by everyone',
  'filter.all': 'All', 'filter.unread': 'Unread', 'filter.mentions': 'Mentions', 'filter.groups': 'Groups',
  'emoji.recent': 'Used last', 'emoji.people': 'Faces', 'emoji.hands': 'People', 'emoji.hearts': 'Signs', 'emoji.nature': 'Nature',
  'emoji.food': 'Food', 'emoji.things': 'Things',

  // words on buttons
  accept: 'Accept', decline: 'Decline', add: 'Add', archive: 'Archive', block: 'Block', unblock: 'Unblock', cancel: 'Cancel',
  close: 'Close', connect: 'Connect', continue: 'Continue', delete: 'Delete', discard: 'Discard', edit: 'Edit', leave: 'Leave',
  mute: 'Mute', unmute: 'Unmute', unpin: 'Unpin', pinTop: 'Pin to the top', remove: 'Remove', rename: 'Rename', reply: 'Reply',
  retry: 'Retry', save: 'Save', send: 'Send', start: 'Start', tryAgain: 'Try again', tryNow: 'Try now', write: 'Write a message',
  signIn: 'Sign in', signOut: 'Sign out', copyText: 'Copy text', copyCode: 'Copy the code', copyId: 'Copy your id',
  deleteForAll: 'Delete for everyone', markUnread: 'Mark unread', markUnreadHere: 'Mark unread from here', readMore: 'Read more',
  moveToInbox: 'Move to the inbox', makeAdmin: 'Make admin', makeMember: 'Make a plain member', addMembers: 'Add members',
  newConversation: 'New conversation', showAll: 'Show all', messageMenu: 'Message menu', conversationMenu: 'Conversation menu',
  yourAccount: 'Your account', yourProfile: 'Your profile', lightColours: 'Light colours', darkColours: 'Dark colours',
  archivedConversations: 'Archived conversations', backToInbox: 'Back to the inbox', backToConversations: 'Back to conversations',
  searchMessages: 'Search messages', searchHere: 'Search in this conversation', searchAll: 'People, conversations, messages',
  searchEmoji: 'Search emoji', previousMatch: 'Previous match', nextMatch: 'Next match', closeSearch: 'Close search',
  stopThis: 'Stop', skip: 'Skip to the conversation', whoHasRead: 'Who has read it', actionsFor: 'Actions for {name}',
  removeName: 'Remove {name}', forDevelopers: 'For developers',

  // sign-in
  oneMoment: 'One moment', welcome: 'Welcome to Tidings', pickName: 'Pick any name. Open a second tab to be somebody else.',
  signInWithToken: 'Sign in with your token.', signInToGoOn: 'Sign in to go on.', yourName: 'Your name',
  tokenHint: 'Your own backend makes it.',
  nameNeedsLetter: 'At least one letter of a to z, or a digit.',
  noToken: 'No token was given.', stayAs: 'Stay {id}', signInAs: 'Sign in as {id}', signInAsOther: 'Sign in as somebody else?',
  otherSession: 'You are signed in as {known}. This link signs this tab in as {given}. Whoever made the link may read what you write there.',
  signInAgain: 'Please sign in again: {why}', signedInAs: 'Signed in as {who}',
  'reason.expired': 'This sign-in has expired.', 'reason.refused': 'The token was refused, or has expired.',
  'reason.signature': 'The token was signed with another secret.', 'reason.claims': 'The token lacks a user or an end.',
  'reason.revoked': 'This sign-in was revoked.', 'reason.malformed': 'This is no token.',
  'reason.unknown_key': 'The token was signed with an unknown key.',

  // inbox
  conversationsLatest: 'Conversations, the latest first', loadingConversations: 'Loading conversations', loadingMore: 'Loading more …',
  countsLag: 'Counts may lag: the server is recovering.', noConversations: 'No conversations yet',
  noConversationsHint: 'Start one with somebody, or wait to be written to.', alsoHere: 'Also here',
  nothingArchived: 'Nothing is archived', nothingArchivedHint: 'Archived conversations are kept here until something new comes.',
  nothingHere: 'Nothing here', noMessages: 'No messages yet', deletedRow: 'Message deleted', draft: 'Draft: ', youSaid: 'You: ',
  filesRow: { one: 'File', other: '{n} files' }, pinned: 'Pinned', muted: 'Muted', requestRow: 'Wants to write to you',
  invitationRow: 'Invites you', unreadCount: '{n} unread', unreadOrMore: '{n} or more unread',
  mentionsCount: { one: '{n} mention', other: '{n} mentions' },
  resultsCount: { one: '{n} result', other: '{n} results' }, noMatch: 'No match', searchingOlder: 'Searching …', matchOf: '{at} of {n}',

  // people
  withWhom: 'With whom', nameOrId: 'Name or id', chosenPeople: 'Chosen people', chooseFromList: 'Choose somebody from the list.',
  chooseOne: 'Choose one person.', nobodyCalled: 'Nobody called “{name}” is here yet.', thatIsYou: 'That is you.',
  alreadyIn: 'They are in it already.', useId: 'Use the id “{id}”', useIdHint: 'Nobody is known by it. Check it twice.',
  unknownChosen: 'Nobody is known by the marked id. A message waits there until somebody signs in with it.',
  you: 'you', youIn: 'you', online: 'online', offline: 'offline', lastSeen: 'last seen {when}',
  lastSeenYesterday: 'last seen yesterday {when}',
  membersCount: { one: '{n} member', other: '{n} members' }, membersOnline: '{members}, {n} online',
  removeTitle: 'Remove from the conversation', removeText: '{name} will not see what comes.', notDelivered: 'Not delivered yet',
  nameHint: 'Shown to everybody you share a conversation with.', choosePicture: 'Choose a picture', pictureAddress: 'Picture (address)',
  badPicture: 'The address of a picture begins with https:// and has no spaces.', yourId: 'Your id:',
  whoMayWrite: 'Who may write to you', whoMayAdd: 'Who may add you to groups',
  'who.anybody': 'Anybody', 'who.shared': 'People I share a group with', 'who.nobody': 'Nobody',
  quietHours: 'Quiet hours', quietHint: 'No notification is sent to your devices in this time.', from: 'From', to: 'To',
  blocked: 'Blocked people', blockTitle: 'Block {name}?',
  blockText: 'They cannot write to you any more, and nothing of theirs is counted. They are not told.',
  requestText: '{name} wants to write to you. They see nothing of you until you accept or answer.',
  invitationText: 'You are invited to {title}. You see its messages when you accept.',
  listAnd: '{first} and {last}', listMore: { one: '{first} and {n} other', other: '{first} and {n} others' },

  // a conversation
  yourConversations: 'Your conversations', chooseOrStart: 'Choose one from the list, or start a new one.',
  nothingToSee: 'Nothing to see here', nothingToSeeHint: 'There is no such conversation, or you are not in it.',
  loadingMessages: 'Loading messages …', today: 'Today', yesterday: 'Yesterday', edited: 'edited', editing: 'Editing a message',
  answering: 'Answer to {name}', typing: 'typing …', typingNames: { one: '{names} is typing …', other: '{names} are typing …' },
  deletedMessage: 'This message was deleted', unavailableMessage: 'This message cannot be read at the moment',
  hiddenMessage: 'A message of somebody you blocked', quoteLoading: '…', noText: 'No text',
  newMessages: { one: '{n} new message', other: '{n} new messages' }, newMessagesLabel: 'New messages', newCount: '{n} new',
  unreadJump: '{n} unread, jump to the oldest', unreadJumpUncounted: 'Unread, jump to the oldest',
  jumpNewest: 'Jump to the newest message', jumpNewestCount: '{said}, jump to the newest',
  'begin.direct': 'This is where your conversation with {title} begins.',
  'begin.group': 'This is where the group begins. Everybody in it sees what is written here.',
  'begin.channel': 'This is where the channel begins. Everybody in it sees what is written here.',
  'note.joined': '{people} joined', 'note.added': '{by} added {people}', 'note.left': '{people} left',
  'note.removed': '{by} removed {people}',
  'note.role': { one: '{people} is now {role}', other: '{people} are now {role}' }, 'note.roleYou': '{people} are now {role}',
  leaveTitle: 'Leave the conversation', leaveText: 'You will not see what comes in {title}.',
  deleteTitle: 'Delete the message', deleteText: 'Its text is removed for everyone, everywhere.',
  textTooLong: 'This is longer than one message may be (16 KiB).', sendsAgain: 'Sends again in {n} s',
  mentionAll: 'everybody', mentionHere: 'everybody who is online',

  react: 'React', reactions: 'Reactions', reactionLabel: '{key}, {n}', reactWith: 'React with {key}', moreReactions: 'More reactions',

  // files
  files: 'Files', attach: 'Attach a file', uploadFailed: 'Not uploaded', dropHere: 'Drop files here', openPicture: 'Open the picture {name}',
  picture: 'Picture', download: 'Download', previousPicture: 'Previous picture', nextPicture: 'Next picture',

  // connection and notifications
  connection: 'Connection', connecting: 'Connecting …', noConnection: 'No connection to the server.', nextTry: 'Next try in {n} s.',
  youAreOffline: 'You are offline.', disconnected: 'Disconnected.', disconnectedBecause: 'Disconnected: {why}.',
  otherWindow: 'In use in another window.', noConnectionKept: 'No connection. Messages are kept and sent later.',
  messagesWait: { one: '{n} message waits and will be sent.', other: '{n} messages wait and will be sent.' },
  notifyAsk: 'Shall this browser notify you of new messages?', notifyYes: 'Yes, notify me', notifyNo: 'No',
  notifyOn: 'Turn notifications on', notifyOff: 'Turn notifications off',

  // errors
  'error.not_found': 'There is no such person or conversation.', 'error.forbidden': 'You may not do this here.',
  'error.too_large': 'That is too long, or too many.', 'error.rate_limited': 'Too fast: try again in a moment.',
  'error.unavailable': 'The server cannot do this just now. Try again.', 'error.disconnected': 'There is no connection just now.',
  'error.timeout': 'The server did not answer in time.', 'error.gone': 'This is over or used up.',

  // answers that are written while they are read
  writing: 'writing …', interrupted: 'interrupted',

  // pinned and saved messages
  pinMessage: 'Pin', unpinMessage: 'Unpin', pinnedMessage: 'Pinned message', pinnedMessages: 'Pinned messages',
  pinnedOf: 'Pinned message {at} of {n}', allPinned: 'All pinned messages', saveMessage: 'Save for later',
  unsave: 'Remove from saved', saved: 'Saved', savedMessages: 'Saved messages', showMore: 'Show more',
  nothingSaved: 'Nothing saved yet', nothingSavedHint: 'Save a message from its menu, and find it here. Nobody else sees it.',

  // search
  moreResults: 'More results', searchGoesOn: 'Older messages are still being looked through …',

  // joining, invites, rules, reports, muting
  open: 'Open', join: 'Join', openNamed: 'Open {title}', joinNamed: 'Join {title}', publicConversations: 'Public conversations',
  searchPublic: 'Search public conversations', noPublic: 'No public conversations yet', noPublicHint: 'A group or channel is listed here when its owner opens it.',
  visibility: 'Who finds it', 'visibility.private': 'Only its members', 'visibility.listed': 'Everybody finds it',
  'visibility.open': 'Everybody finds it and may join', post: 'Who may write', 'post.all': 'All members',
  'post.admins': 'Only admins', inviteLinks: 'Invite links', inviteLink: 'Invite link',
  inviteHint: 'Everybody who has the link may join.', inviteLife: 'It works for', 'lives.day': 'one day', 'lives.week': 'one week',
  'lives.forever': 'until it is taken back', makeInvite: 'Make a link', copyLink: 'Copy the link',
  shownOnce: 'Copy it now: it is shown once.', inviteUntil: 'until {when}', usesLeft: { one: '{n} use left', other: '{n} uses left' },
  inviteBy: '{name}, {when}', withdraw: 'Take the link back', inviteTitle: 'You are invited',
  inviteText: 'This link lets you join a conversation. Its members see that you joined.', report: 'Report',
  reportTitle: 'Report the message',
  reportText: 'The moderators of this service will see the message and your reason. Its author is not told.', reportReason: 'Reason',
  reported: 'Thank you. The moderators will look at it.', ban: 'Ban', banTitle: 'Ban {name}?',
  banText: 'They are removed, and neither a link nor a member can bring them back.', muteMenu: 'Mute …',
  muteFor: 'Mute for how long?', 'mute.hour': '1 hour', 'mute.hours': '8 hours', 'mute.week': '1 week',
  'mute.forever': 'Until I turn it on again', mutedUntil: 'Muted until {when}',

  // names of the user, and of what a leader changes
  youName: 'You', settings: 'Settings',

  // threads
  thread: 'Thread', threads: 'Threads', threadsUnread: 'Threads, {n} unread', replies: 'Replies',
  repliesCount: { one: '{n} reply', other: '{n} replies' }, replyInThread: 'Reply in thread', inThread: 'Answer in a thread',
  closeThread: 'Close the thread', follow: 'Follow', unfollow: 'Unfollow', showEarlier: 'Show earlier', noThreads: 'No threads yet',
  noThreadsHint: 'Answer a message in a thread, and find it here.',
  alsoToHere: 'Also send to the conversation',

  // quiet hours
  quietLets: 'Mentions still come through',

  // forwarding, polls, voice
  forward: 'Forward', forwardTo: 'Forward to', forwardedFrom: 'Forwarded from {name}',
  forwardedHint: 'Said by the person who forwarded it', searchConversations: 'Search conversations', file: 'File',
  poll: 'Poll', newPoll: 'New poll', pollQuestion: 'Question', pollOptions: 'Options', pollOption: 'Option {n}',
  pollOne: 'Choose one', pollSeveral: 'Choose one or more',
  pollNeeds: 'A poll has a question and at least two different options.',
  votesCount: { one: '{n} vote', other: '{n} votes' }, voteLabel: '{option}, {said}',
  recordVoice: 'Record a voice message', recording: 'Recording', sendVoice: 'Send the voice message', play: 'Play',
  pause: 'Pause', soundPlace: 'Place in the sound',
  'error.no_microphone': 'The microphone cannot be used. Allow it in the browser, and try again.',
};
