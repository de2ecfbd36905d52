"""When nobody looks: notifications that are asked for at the right time, and a page that opens without a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from playwright.async_api import Browser, expect

from tests.browser.conftest import LIMITS
from tests.support.browser.people import People, Person
from tests.support.browser.seeding import Seeds
from tests.support.nodes.node_process import NodeProcess

Named = Callable[[str], str]
# A browser that grants what is asked for, keeps what is shown, and whose window has not the focus.
STAND_IN = """
  window.shown = [];
  window.Notification = class {
    static permission = 'default';
    static async requestPermission() { return (this.permission = 'granted'); }
    constructor(title, { body, tag }) { window.shown.push([title, body, tag]); window.lastShown = this; }
    close() {}
  };
  document.hasFocus = () => false;
  window.chimes = 0;
  const start = OscillatorNode.prototype.start;
  OscillatorNode.prototype.start = function (...when) { window.chimes += 1; return start.apply(this, when); };
"""


async def unfocused(people: People, user_id: str) -> Person:
    person = await people(user_id, is_in=False)
    await person.page.add_init_script(STAND_IN)
    return await person.enter(people.node.token(user_id))


async def test_notifications_are_asked_for_after_an_answer_and_shown_where_nobody_looks(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation, other = await seeds.direct(you, me), await seeds.direct(named("cleo"), me)
    await seeds.say(you, conversation, "hello")
    ann = await unfocused(people, me)
    ask = ann.page.get_by_role("region", name="Notifications")
    await expect(ask).to_be_hidden()
    await ann.open(conversation)
    await ann.send("hello yourself")
    await ann.sees_tick("hello yourself", "sent")
    await expect(ask).to_be_hidden()
    await seeds.say(you, conversation, "an answer")
    await ask.get_by_role("button", name="Yes, notify me").click()
    await expect(ask).to_be_hidden()
    await ann.leave()
    await seeds.say(you, conversation, "are you **there**?")
    await ann.until("() => window.shown.length === 1")
    assert await ann.page.evaluate("window.shown[0]") == [you, "are you there?", conversation]
    assert await ann.page.evaluate("window.chimes") == 2, "a sound of two tones"
    await ann.open(conversation)
    await ann.page.get_by_label("Conversation menu").click()
    await ann.page.get_by_role("menuitem", name="Mute …").click()
    await ann.page.get_by_role("menuitem", name="Until I turn it on again").click()
    await expect(ann.row(you).get_by_text("Muted")).to_be_attached()
    await ann.leave()
    await seeds.say(you, conversation, "muted")
    await seeds.say(named("cleo"), other, "and I am not")
    await ann.until("() => window.shown.length === 2")
    assert await ann.page.evaluate("window.shown[1][1]") == "and I am not"


async def test_a_reply_notifies_those_who_follow_its_thread_and_leads_there(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    group = await seeds.create(you, "group", [me], "builders")
    await seeds.say(you, group, "which colour?", "which size?")
    ann = await unfocused(people, me)
    await ann.page.evaluate("localStorage.setItem('tidings.notify', 'on'); Notification.permission = 'granted'")
    await seeds.reply(me, group, 1, "mine")
    await seeds.reply(you, group, 2, "not followed")
    await seeds.reply(you, group, 1, "blue")
    of_threads = "window.shown.filter(([, , tag]) => tag.includes('/'))"
    await ann.until(f"() => {of_threads}.length > 0")
    assert await ann.page.evaluate(of_threads) == [[f"{you} · builders", "blue", f"{group}/1"]]
    await ann.page.evaluate("window.lastShown.onclick()")
    await expect(ann.page.get_by_role("complementary", name="Thread").locator(".text").last).to_have_text("blue")


async def test_the_page_opens_without_a_connection_and_keeps_what_is_written(
    people: People, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    conversation = await seeds.direct(you, me)
    await seeds.say(you, conversation, "hello")
    ann = await (await people(me)).open(conversation)
    await ann.until("() => navigator.serviceWorker.controller !== null")
    await ann.until(
        """async () => {
          const kept = (await (await caches.open('tidings-page')).keys()).map(({ url }) => url);
          return kept.length >= 4 && kept.some((url) => url.includes('/assets/later-'));
        }"""
    )
    await ann.context.set_offline(True)
    await ann.page.reload()
    await expect(ann.page.locator(".banner")).to_contain_text("You are offline.")
    await ann.page.get_by_label("Your account").click()
    await ann.page.get_by_role("menuitem", name="Your profile").click()  # a part that is loaded later
    await expect(ann.page.get_by_role("dialog", name="Your profile")).to_be_visible()
    await ann.dismiss()
    await ann.send("written without a connection")
    await ann.sees_tick("written without a connection", "sending")
    await ann.context.set_offline(False)
    await ann.sees_tick("written without a connection", "sent")


async def test_the_page_can_be_installed(people: People, named: Named) -> None:
    ann = await people(named("ann"))
    found = await ann.page.evaluate(
        "fetch(document.querySelector('link[rel=manifest]').href).then((one) => one.json())"
    )
    assert found["start_url"] == "/" and found["display"] == "standalone"
    for icon in found["icons"]:
        assert await ann.page.evaluate("url => fetch(url).then((one) => one.ok)", icon["src"])


# A browser with a push service, which is far away in tests.
PUSH_SERVICE = """
  const keys = { p256dh: 'B'.padEnd(87, 'A'), auth: 'A'.repeat(22) };
  const subscription = {
    unsubscribe: async () => { window.subscribed = null; return true; },
    toJSON: () => ({ endpoint: 'https://fcm.googleapis.com/fcm/send/a-browser', expirationTime: null, keys }),
  };
  window.subscribed = null;
  PushManager.prototype.subscribe = async (wanted) => { window.subscribed = wanted; return subscription; };
  PushManager.prototype.getSubscription = async () => window.subscribed && subscription;
"""


async def test_a_browser_with_push_is_a_device_until_notifications_are_turned_off(
    whole_browser: Browser, named: Named, tmp_path: Path
) -> None:
    me, key = named("ann"), tmp_path / "vapid.pem"
    secret = ec.generate_private_key(ec.SECP256R1())
    key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    env = LIMITS | {"TIDINGS_PUSH_VAPID_KEY_FILE": str(key), "TIDINGS_PUSH_VAPID_CONTACT": "mailto:ops@chat.example"}
    with NodeProcess(tmp_path / "data", env, ["--dev"]) as node:
        people = People(whole_browser, await asyncio.to_thread(node.start))

        async def devices() -> list[str]:
            _, answer = await asyncio.to_thread(node.rest, "GET", "/v1/devices", None, me)
            return [device["provider"] for device in answer["devices"]]

        ann = await people(me, is_in=False)
        await ann.page.add_init_script(STAND_IN + PUSH_SERVICE)
        await ann.enter(node.token(me))
        await choose(ann, "Turn notifications on")
        await ann.until(
            "() => window.subscribed?.userVisibleOnly && window.subscribed.applicationServerKey.length > 80"
        )
        await until(devices, ["webpush"])
        await choose(ann, "Turn notifications off")
        await until(devices, [])
        assert await ann.page.evaluate("window.subscribed") is None
        assert await people.close() == []


CLICK = """async (tag) => {
  const [notification] = (await registration.getNotifications()).filter((one) => one.tag === tag);
  try {
    dispatchEvent(new NotificationEvent('notificationclick', { notification }));
  } catch {}
}"""


async def test_a_push_of_a_thread_is_shown_where_nobody_looks_and_leads_there(
    whole_browser: Browser, page_node: NodeProcess, seeds: Seeds, named: Named
) -> None:
    me, you = named("ann"), named("bob")
    group = await seeds.create(you, "group", [me], "builders")
    await seeds.say(you, group, "which colour?")
    await seeds.reply(you, group, 1, "blue")
    people = People(whole_browser, page_node)
    ann = await people(me)
    await ann.until("() => navigator.serviceWorker.controller !== null")
    await ann.page.goto(f"{ann.url}/docs")  # nothing is shown to a person who looks at the conversations
    await push(ann, {"title": "Bob", "body": "a message", "conversation_id": group, "badge": 3})
    await ann.until(NOTIFIED, ["Bob", "a message", group])
    await push(ann, {"title": "Bob", "body": "blue", "conversation_id": group, "thread_seq": 1})
    await ann.until(NOTIFIED, ["Bob", "blue", f"{group}/1"])
    await ann.enter(page_node.token(me))
    await ann.context.service_workers[0].evaluate(CLICK, f"{group}/1")
    side = ann.page.get_by_role("complementary", name="Thread")
    await expect(side.locator(".text").last).to_have_text("blue")
    assert await people.close() == []


NOTIFIED = """async (wanted) => {
  const worker = await navigator.serviceWorker.ready;
  return (await worker.getNotifications()).some(({ title, body, tag }) => [title, body, tag].join() === wanted.join());
}"""


async def choose(person: Person, entry: str) -> None:
    await person.page.get_by_label("Your account").click()
    await person.page.get_by_role("menuitem", name=entry).click()


async def until(read: Callable[[], Awaitable[list[str]]], wanted: list[str]) -> None:
    async with asyncio.timeout(60):
        while await read() != wanted:
            await asyncio.sleep(0.05)


async def push(person: Person, told: dict[str, object]) -> None:
    """What a push service would bring to the service worker."""
    await person.context.grant_permissions(["notifications"], origin=person.url)
    session = await person.context.new_cdp_session(person.page)
    registration: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def heard(event: dict[str, list[dict[str, str]]]) -> None:
        for one in event["registrations"]:
            if not registration.done():
                registration.set_result(one["registrationId"])

    session.on("ServiceWorker.workerRegistrationUpdated", heard)
    await session.send("ServiceWorker.enable")
    id_ = await asyncio.wait_for(registration, 60)
    told_ = {"origin": person.url, "registrationId": id_, "data": json.dumps(told)}
    await session.send("ServiceWorker.deliverPushMessage", told_)
