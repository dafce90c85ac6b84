/* A page that was opened as a file may not start a worker, in which the theme searches. Where that is so, a worker is
 * an invisible frame that runs the worker's script and passes messages on. */
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = []; // messages until the script is there

    constructor(address) {
      super();
      this.#frame.hidden = true;
      this.#frame.addEventListener("load", () => this.#start(new URL(address, document.baseURI)), { once: true });
      document.body.append(this.#frame);
    }

    postMessage(data) {
      if (this.#waiting) this.#waiting.push(data);
      else this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }

    async #start(address) {
      const inside = this.#frame.contentWindow;
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          Object.assign(script, { src: new URL(source, address), onload: resolve, onerror: reject });
          inside.document.body.append(script);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      await load(address);
      const waiting = this.#waiting;
      this.#waiting = null;
      waiting.forEach((data) => this.postMessage(data));
    }
  };
