/** The body of a request to an endpoint. `entries` are as on the wire: their names are snake_case. */
export interface WebhookRequest {
  readonly webhookId: string;
  readonly conversationId: string;
  readonly entries: readonly Record<string, unknown>[];
  readonly head: number;
}

/** The body of a request to the before-send hook: `message` is as on the wire, before it has a number. */
export interface BeforeSendRequest {
  readonly conversationId: string;
  readonly message: Readonly<Record<string, unknown>>;
}

/** The same check for a request to the before-send hook. */
export function verifyBeforeSend(
  secret: string, signature: string, body: string, options?: { ageMsMax?: number; now?: () => number },
): Promise<BeforeSendRequest>;

/** Check the header `Tidings-Signature` of a request to an endpoint, and decode its body. Rejects with an Error. */
export function verifyWebhook(
  secret: string, signature: string, body: string, options?: { ageMsMax?: number; now?: () => number },
): Promise<WebhookRequest>;
