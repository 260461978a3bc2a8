// The live stream of cowbell, one for all windows of a browser: HTTP/1.1 allows six connections to a host, and a stream each
// would leave none for the pages. As a shared worker it serves the windows that are in sight; a browser without shared
// workers loads it into each page.
"use strict";
var cowbellStream = (() => {
  const clock = () => performance.timeOrigin + performance.now();
  // A stream without events for so long is reopened, even if the connection seems intact.
  const DEAD_MS = 15000;
  const AGAIN_MS = 1000;
  let dead = DEAD_MS;
  let source = null;
  let url = "";
  let heard = 0;
  let tell = () => {};

  function open() {
    heard = clock();
    source = new EventSource(url);
    source.addEventListener("tick", ({ data }) => {
      heard = clock();
      dead = Math.max(DEAD_MS, 3 * JSON.parse(data).interval_ms || 0);
      tell(data);
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  // An answer that is an error closes it for good.
  setInterval(() => {
    if (source && (source.readyState === EventSource.CLOSED || clock() - heard > dead)) {
      close();
      open();
    }
  }, AGAIN_MS);

  return {
    start(address, listener) {
      [url, tell] = [address, listener];
      if (!source) open();
    },
    stop: close,
  };
})();

if (typeof SharedWorkerGlobalScope !== "undefined") {
  const windows = new Set();
  let last = null;
  const tellAll = (data) => {
    last = { data, at: performance.timeOrigin + performance.now() };
    for (const port of windows) port.postMessage(last);
  };
  self.onconnect = ({ ports: [port] }) => {
    port.onmessage = ({ data: address }) => {
      if (!address) {
        windows.delete(port);
        if (windows.size === 0) cowbellStream.stop();
        return;
      }
      windows.add(port);
      if (last) port.postMessage(last);
      cowbellStream.start(address, tellAll);
    };
  };
}
