"""Python's ollama and openai, pointed at a gateway: clients.py URL MODEL CALLER SEER EMBEDDER, as clients.mjs. Prints one line of JSON for each step."""
import io
import json
import sys

import ollama
import openai

url, model, caller, seer, embedder = sys.argv[1:]
few = {"num_predict": 12, "temperature": 0}
here = ollama.Client(host=url)
there = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)


def step(name, f):
    try:
        said = f()
    except (ollama.ResponseError, openai.APIStatusError) as e:
        said = {"failed": str(e), "status": e.status_code}
    print(json.dumps({"step": name, **said}), flush=True)


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
      a: the first
      b: the second
    """
    return a + b


def streamed():  # as st.write_stream of a Streamlit app takes it
    parts = here.chat(model=model, messages=[{"role": "user", "content": "Count to three."}], options=few, stream=True)
    return "".join(part["message"]["content"] for part in parts)


def goes_away():
    parts = here.generate(model=model, prompt="Write a long story.", options={"num_predict": 20000}, stream=True)
    next(parts)
    parts.close()
    return {"aborted": True}


def called():
    message = here.chat(model=caller, messages=[{"role": "user", "content": "What is 2 + 3?"}], tools=[add]).message
    return {"calls": [{"id": "-", "name": c.function.name, "arguments": c.function.arguments} for c in message.tool_calls]}


def embedded(vectors):
    return {"pieces": len(vectors), "written": len(vectors[0])}


def batch():
    lines = [{"custom_id": f"s-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {"model": model, "max_tokens": 6, "messages": [{"role": "user", "content": f"Count to {i}."}]}} for i in range(3)]
    file = there.files.create(file=("class.jsonl", io.BytesIO("\n".join(map(json.dumps, lines)).encode())), purpose="batch")
    b = there.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while b.status not in ("completed", "failed", "expired", "cancelled"):
        b = there.batches.retrieve(b.id)
    return {"reason": b.status, "models": sorted(json.loads(line)["custom_id"] for line in there.files.content(b.output_file_id).text.splitlines())}


def openai_streamed():
    parts = there.chat.completions.create(model=model, messages=[{"role": "user", "content": "Count to three."}], max_tokens=12, temperature=0, stream=True)
    return "".join(part.choices[0].delta.content or "" for part in parts)


step("ollama list", lambda: {"models": [m.model for m in here.list().models]})
step("ollama ps", lambda: {"models": [m.model for m in here.ps().models]})
step("ollama show", lambda: {"capabilities": here.show(model).capabilities})
step("ollama generate", lambda: {"text": here.generate(model=model, prompt="Count to three.", options=few).response})
step("ollama chat", lambda: {"text": here.chat(model=model, messages=[{"role": "user", "content": "Count to three."}], options=few).message.content, "streamed": streamed()})
step("ollama chat, tools", called)
step("ollama embed", lambda: embedded(here.embed(model=embedder, input=["one", "two"]).embeddings))
step("openai embeddings", lambda: embedded([d.embedding for d in there.embeddings.create(model=embedder, input=["one", "two"]).data]))
step("ollama, a model that is not there", lambda: here.generate(model="nobody:1b", prompt="Hello"))
step("ollama goes away", goes_away)
step("openai models", lambda: {"models": [m.id for m in there.models.list()]})
step("openai chat", lambda: {"text": there.chat.completions.create(model=model, messages=[{"role": "user", "content": "Count to three."}], max_tokens=12, temperature=0).choices[0].message.content, "streamed": openai_streamed()})
step("openai, a model that is not there", lambda: there.chat.completions.create(model="nobody:1b", messages=[{"role": "user", "content": "Hello"}]))
step("openai batch", batch)
