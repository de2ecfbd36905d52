// A chat in one file: an inbox, a conversation, unread counts and typing. A test builds it and drives it in a browser.
import { useState } from 'react';
import { createRoot } from 'react-dom/client';
import { TidingsClient } from 'tidings';
import { TidingsProvider, useConnection, useConversation, useInbox, useTyping, useUnread } from '@tidings/react';

const asked = new URLSearchParams(location.search);
const url = asked.get('server') ?? 'http://127.0.0.1:8000';
// Your own backend makes the token; see docs/use/react.md. Here it comes with the address.
const client = new TidingsClient({ url, token: asked.get('token') });

function App() {
  const [open, setOpen] = useState(null);
  return (
    <main>
      <Head />
      <Inbox onOpen={setOpen} />
      {open && <Conversation key={open} id={open} />}
    </main>
  );
}

function Head() {
  const { state } = useConnection();
  const { totalUnread } = useUnread();
  return <h1>{state} <b id="total">{totalUnread}</b></h1>;
}

function Inbox({ onOpen }) {
  const { conversations, error } = useInbox();
  if (error) return <p role="alert">{error.message}</p>;
  return (
    <ul id="inbox">
      {conversations.map((one) => (
        <li key={one.id}>
          <button onClick={() => onOpen(one.id)}>{one.name ?? one.id} ({one.unreadCount ?? '…'}): {one.lastMessagePreview}</button>
        </li>
      ))}
    </ul>
  );
}

function Conversation({ id }) {
  const { messages, send, markRead } = useConversation(id);
  const { userIds, keystroke } = useTyping(id);
  const [text, setText] = useState('');
  const submit = (event) => {
    event.preventDefault();
    send(text);
    setText('');
  };
  return (
    <section>
      <ol id="messages">{messages.map((one) => <li key={one.key}>{one.senderId}: {one.text} {one.state}</li>)}</ol>
      <p id="typing">{userIds.join(', ')}</p>
      <form onSubmit={submit}>
        <input value={text} onChange={(event) => { setText(event.target.value); keystroke(); }} aria-label="Message" />
        <button>Send</button>
        <button type="button" onClick={() => markRead()}>Mark read</button>
      </form>
    </section>
  );
}

createRoot(document.getElementById('app')).render(<TidingsProvider client={client}><App /></TidingsProvider>);
