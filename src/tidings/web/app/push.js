// Web Push of this browser: the service worker shows a message when no tab is open. The browser is a device of the user.
// The server has no key for it unless the operator set one up; then there is no push, and the tab notifies by itself.

const DEVICE = 'tidings.device'; // the name of this browser among the user's devices

export class PushTarget {
  constructor(client) {
    this.client = client;
    this.isOn = false;
  }

  /** Subscribe, and tell the server the address. An address may change, so this is done at each start. */
  async begin() {
    const device = nameOfDevice();
    if (this.isOn || device === null || !isPossible()) return;
    try {
      const { vapidPublicKey } = await this.client.rest('GET', '/v1/devices');
      if (!vapidPublicKey) return;
      const subscription = await subscribed(vapidPublicKey);
      await this.client.rest('POST', '/v1/devices', { device, provider: 'webpush', subscription: subscription.toJSON() });
      this.isOn = true;
    } catch {
      // Without a push service the tab notifies by itself; the next start tries again.
    }
  }

  /** Forget this browser, on the server and here. */
  async end() {
    if (!isPossible()) return;
    this.isOn = false;
    try {
      const { pushManager } = await navigator.serviceWorker.ready;
      const subscription = await pushManager.getSubscription();
      if (!subscription) return;
      await subscription.unsubscribe(); // from here on the push service refuses the address
      await this.client.rest('DELETE', `/v1/devices?${new URLSearchParams({ device: nameOfDevice() })}`);
    } catch {
      // The server forgets an address that the push service refuses.
    }
  }
}

const isPossible = () => 'serviceWorker' in navigator && 'PushManager' in window;

async function subscribed(key) {
  const { pushManager } = await navigator.serviceWorker.ready;
  const wanted = { userVisibleOnly: true, applicationServerKey: key };
  try {
    return await pushManager.subscribe(wanted);
  } catch (error) {
    const old = await pushManager.getSubscription(); // of another key
    if (!old) throw error;
    await old.unsubscribe();
    return pushManager.subscribe(wanted);
  }
}

function nameOfDevice() {
  try {
    const name = localStorage.getItem(DEVICE) ?? `browser-${crypto.randomUUID()}`;
    localStorage.setItem(DEVICE, name);
    return name;
  } catch {
    return null; // without storage a browser would be a new device at each start
  }
}
