// Data that a page holds compressed.

/** The JSON in base64 of gzip. */
export async function unpacked(packed) {
  const stream = new Blob([bytesOf(packed.gzip)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** The bytes in base64. */
export function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
