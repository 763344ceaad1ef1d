"""Chunkers, stores of single chunks, vectors and providers under CowAgent's names."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cowagent_contract import covers
from cowagent_support import install_shim  # noqa: F401 - a fixture
from loopback import Loopback, status
from vademecum.errors import ProviderRefusedError, UsageError


def _chunk(name: str, text: str, path: str = "memory/a.md", **more: Any) -> Any:
    from agent.memory.storage import MemoryChunk, MemoryStorage

    given = {"user_id": None, "scope": "shared", "source": "memory", "start_line": 1, "end_line": 1, "embedding": None}
    return MemoryChunk(id=name, path=path, text=text, hash=MemoryStorage.compute_hash(text), **{**given, **more})


@covers("agent.memory.chunker", "TextChunk TextChunker TextChunker.chunk_text TextChunker.chunk_markdown")
def test_a_text_is_cut_into_slices_with_lines() -> None:
    from agent.memory.chunker import TextChunk, TextChunker

    text = "\n\n".join(f"Paragraph {n} " + "of some length " * 20 for n in range(12))
    chunks = TextChunker(max_tokens=100, overlap_tokens=10).chunk_text(text)
    lines = text.split("\n")
    assert len(chunks) > 3
    assert all(isinstance(chunk, TextChunk) for chunk in chunks)
    assert all(chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line]) for chunk in chunks)
    assert TextChunker(100, 10).chunk_markdown(text) == chunks
    assert TextChunker().chunk_text(" \n\n") == []


_STORAGE = (
    "MemoryChunk SearchResult MemoryStorage MemoryStorage#conn MemoryStorage#vector_backend"
    " MemoryStorage#fts5_available MemoryStorage#trigram_fts5_available MemoryStorage.save_chunk"
    " MemoryStorage.save_chunks_batch MemoryStorage.get_chunk MemoryStorage.search_vector"
    " MemoryStorage.search_keyword MemoryStorage.delete_by_path MemoryStorage.get_file_hash"
    " MemoryStorage.update_file_metadata MemoryStorage.get_stats MemoryStorage.reset_fts5 MemoryStorage.close"
    " MemoryStorage.compute_hash"
)


@covers("agent.memory.storage", _STORAGE)
def test_chunks_are_kept_found_replaced_and_dropped(tmp_path: Path) -> None:
    from agent.memory.storage import MemoryStorage

    storage = MemoryStorage(tmp_path / "own.db")
    assert (storage.fts5_available, storage.trigram_fts5_available) == (True, True)
    storage.save_chunk(_chunk("one", "The broker is Fidelity", embedding=[1.0, 0.0], metadata={"k": 1}))
    storage.save_chunks_batch(
        [_chunk("two", "用户的风险偏好是保守的", "memory/b.md", embedding=[0.0, 1.0]), _chunk("three", "plain text")]
    )
    assert storage.get_stats() == {"chunks": 3, "files": 0, "embedded": 2}
    one = storage.get_chunk("one")
    assert (one.text, one.embedding, one.metadata, one.hash) == (
        "The broker is Fidelity",
        [1.0, 0.0],
        {"k": 1},
        MemoryStorage.compute_hash("The broker is Fidelity"),
    )
    assert storage.get_chunk("none") is None
    assert [hit.id for hit in storage.search_keyword("which broker?")] == ["one"]
    assert [hit.path for hit in storage.search_keyword("风险偏好")] == ["memory/b.md"]
    (near, *_) = storage.search_vector([0.9, 0.1])
    assert (near.path, near.snippet, near.source, near.metadata) == (
        "memory/a.md",
        "The broker is Fidelity",
        "memory",
        {"k": 1},
    )
    storage.save_chunk(_chunk("one", "The broker is Schwab"))
    assert storage.search_keyword("Fidelity") == []
    assert storage.get_chunk("one").embedding is None
    storage.update_file_metadata("memory/a.md", "memory", "abc", 1, 2)
    assert storage.get_file_hash("memory/a.md") == "abc"
    storage.reset_fts5()
    assert [hit.id for hit in storage.search_keyword("Schwab")] == ["one"]
    storage.delete_by_path("memory/a.md")
    assert (storage.get_file_hash("memory/a.md"), storage.search_keyword("Schwab")) == (None, [])
    assert storage.conn.execute("SELECT count(*) FROM chunks").fetchone() == (1,)
    storage.close()
    with pytest.raises(sqlite3.ProgrammingError):
        storage.conn.execute("SELECT 1")


def test_nobody_finds_another_users_chunks(tmp_path: Path) -> None:
    from agent.memory.storage import MemoryStorage

    storage = MemoryStorage(tmp_path / "own.db")
    storage.save_chunks_batch(
        [
            _chunk("ann", "secret of ann", scope="user", user_id="ann", embedding=[1.0, 0.0]),
            _chunk("all", "secret of all", embedding=[1.0, 0.1]),
        ]
    )
    assert {hit.id for hit in storage.search_keyword("secret", user_id="bob")} == {"all"}
    assert {hit.id for hit in storage.search_vector([1.0, 0.0], user_id="bob")} == {"all"}
    assert {hit.id for hit in storage.search_vector([1.0, 0.0], user_id="ann")} == {"ann", "all"}
    assert {hit.id for hit in storage.search_keyword("secret", "ann", ["user"])} == {"ann"}
    assert storage.search_keyword("secret", scopes=[]) == []
    with pytest.raises(UsageError, match="nobody"):
        storage.search_vector([1.0, 0.0], scopes=["shared", "user"])
    storage.close()


def test_a_batch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    from agent.memory.storage import MemoryStorage

    storage = MemoryStorage(tmp_path / "own.db")
    with pytest.raises(sqlite3.IntegrityError):
        storage.save_chunks_batch([_chunk("good", "kept apart"), _chunk("bad", "no path", path=None)])
    assert storage.get_stats()["chunks"] == 0
    assert storage.search_keyword("apart") == []
    storage.close()


@covers("agent.memory", "VectorBackend VectorRecord VectorMatch")
@covers("agent.memory.vector_backend", "VectorBackend VectorRecord VectorMatch")
def test_a_hosts_own_vectors_are_used(tmp_path: Path) -> None:
    from agent.memory import VectorBackend, VectorMatch, VectorRecord
    from agent.memory.storage import MemoryStorage

    class Elsewhere(VectorBackend):
        def __init__(self) -> None:
            self.kept: dict[str, VectorRecord] = {}
            self.filters: list[Mapping[str, Any] | None] = []

        def upsert(self, records: Sequence[VectorRecord]) -> None:
            self.kept.update({record.id: record for record in records})

        def delete(self, ids: Any = None, metadata_filter: Any = None) -> None:
            self.kept = {
                name: record for name, record in self.kept.items() if record.metadata["path"] != metadata_filter["path"]
            }

        def search(self, embedding: Any, limit: int = 10, metadata_filter: Any = None) -> list[VectorMatch]:
            self.filters.append(metadata_filter)
            return [VectorMatch(name, 0.5) for name in self.kept][:limit]

    backend = Elsewhere()
    storage = MemoryStorage(tmp_path / "own.db", vector_backend=backend)
    storage.save_chunk(_chunk("one", "text", embedding=[1.0, 2.0]))
    assert storage.vector_backend is backend
    assert backend.kept["one"] == VectorRecord("one", [1.0, 2.0], backend.kept["one"].metadata)
    assert [(hit.id, hit.score) for hit in storage.search_vector([1.0, 2.0], user_id="ann")] == [("one", 0.5)]
    assert backend.filters == [{"scopes": ["shared", "user"], "user_id": "ann"}]
    storage.delete_by_path("memory/a.md")
    assert backend.kept == {}
    storage.close()


@covers("agent.memory", "SQLiteVectorBackend")
@covers(
    "agent.memory.vector_backend",
    "SQLiteVectorBackend SQLiteVectorBackend.upsert SQLiteVectorBackend.delete SQLiteVectorBackend.search",
)
def test_vectors_in_sqlite_are_searched_filtered_and_dropped(tmp_path: Path) -> None:
    from agent.memory import SQLiteVectorBackend, VectorRecord
    from agent.memory.storage import MemoryStorage

    storage = MemoryStorage(tmp_path / "own.db")
    storage.save_chunks_batch([_chunk(name, name, f"memory/{name}.md") for name in ("a", "b", "c")])
    backend = SQLiteVectorBackend(storage.conn)
    backend.upsert([VectorRecord("a", [1, 0]), VectorRecord("b", [1, 1]), VectorRecord("c", [-1, 0, 0])])
    assert [match.id for match in backend.search([1, 0])] == ["a", "b"]  # other dimensions are no match
    assert backend.search([1, 0], 1)[0].score == pytest.approx(1.0)
    assert [match.id for match in backend.search([1, 0], 10, {"path": "memory/b.md"})] == ["b"]
    assert backend.search([1, 0], 10, {"scopes": []}) == []
    backend.delete(["a"])
    assert [match.id for match in backend.search([1, 0])] == ["b"]
    backend.delete(metadata_filter={"path": "memory/b.md"})
    assert backend.search([1, 0]) == []
    with pytest.raises(UsageError, match="everything"):
        backend.delete()
    with pytest.raises(UsageError, match="drop"):
        backend.search([1, 0], 10, {"drop table": 1})
    storage.close()


def _seed_index(file: Path) -> None:
    """An index.db in the seed's schema, as far as chunks and sessions go."""
    file.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(file)
    db.executescript(
        "CREATE TABLE chunks(id TEXT PRIMARY KEY, user_id TEXT, scope TEXT, source TEXT, path TEXT, start_line INTEGER,"
        " end_line INTEGER, text TEXT, embedding TEXT, hash TEXT, metadata TEXT, created_at INTEGER,"
        " updated_at INTEGER);"
        "CREATE TABLE sessions(session_id TEXT PRIMARY KEY);"
    )
    row = (None, "shared", "memory", "MEMORY.md", 1, 1)
    blob = b"\x00\x00\x80?\x00\x00\x00\x00"  # 1.0, 0.0
    db.execute("INSERT INTO chunks VALUES ('x', ?, ?, ?, ?, ?, ?, 'old kiwi', ?, 'h', '{}', 1, 1)", (*row, blob))
    db.execute("INSERT INTO chunks VALUES ('y', ?, ?, ?, ?, ?, ?, 'old fig', ?, 'h', NULL, 1, 1)", (*row, "[0.5, 0.5]"))
    db.commit()
    db.close()


def test_a_store_that_cowagent_made_is_read_and_stays_as_it_is(tmp_path: Path) -> None:
    from agent.memory.storage import MemoryStorage

    file = tmp_path / "long-term" / "index.db"
    _seed_index(file)
    before = file.read_bytes()
    storage = MemoryStorage(file)
    assert (storage.get_chunk("x").embedding, storage.get_chunk("y").embedding) == ([1.0, 0.0], [0.5, 0.5])
    assert [hit.id for hit in storage.search_keyword("kiwi")] == ["x"]
    storage.save_chunk(_chunk("z", "new"))
    storage.close()
    again = MemoryStorage(file)
    assert again.get_stats()["chunks"] == 3
    again.close()
    assert file.read_bytes() == before
    assert not file.with_name("index.db-wal").exists()


@covers("agent.memory.embedding", "clear_index cleanup_legacy_state_file detect_index_dim")
def test_a_store_is_cleared_and_says_its_dimensions(tmp_path: Path) -> None:
    from agent.memory.embedding import cleanup_legacy_state_file, clear_index, detect_index_dim
    from agent.memory.storage import MemoryStorage

    file = tmp_path / "own.db"
    storage = MemoryStorage(file)
    assert detect_index_dim(storage) is None
    storage.save_chunk(_chunk("one", "text", embedding=[1.0, 0.0, 0.0]))
    assert detect_index_dim(storage) == 3
    (tmp_path / "embedding_state.json").write_text(json.dumps({}))
    assert clear_index(file, storage=storage) == 1
    assert storage.get_stats() == {"chunks": 0, "files": 0, "embedded": 0}
    assert not (tmp_path / "embedding_state.json").exists()
    storage.save_chunk(_chunk("two", "text"))
    storage.close()
    assert clear_index(file) == 1
    cleanup_legacy_state_file(file)


@covers("agent.memory", "create_embedding_provider")
@covers(
    "agent.memory.embedding",
    "create_embedding_provider OpenAIEmbeddingProvider OpenAIEmbeddingProvider.embed"
    " OpenAIEmbeddingProvider.embed_batch OpenAIEmbeddingProvider.embed_query OpenAIEmbeddingProvider.dimensions",
)
def test_a_provider_speaks_the_protocol_in_batches_and_with_headers() -> None:
    pytest.importorskip("openai")
    from agent.memory import create_embedding_provider
    from agent.memory.embedding import OpenAIEmbeddingProvider

    with Loopback(dims=64) as server:
        provider = create_embedding_provider(
            "dashscope", "text-embedding-v4", "key", server.base_url, {"X-Host": "cow"}, dimensions=64
        )
        assert isinstance(provider, OpenAIEmbeddingProvider)
        rows = provider.embed_batch([f"text {n}" for n in range(12)])
        assert (len(rows), {len(row) for row in rows}, server.count) == (12, {64}, 2)  # ten texts a call
        assert server.bodies[0]["dimensions"] == 64
        assert server.requests[0].headers["x-host"] == "cow"
        assert server.requests[0].headers["authorization"] == "Bearer key"
        assert provider.embed("text 3") == pytest.approx(rows[3])
        assert provider.embed_query("text 3") == pytest.approx(rows[3])
        assert provider.dimensions == 64
        asking = OpenAIEmbeddingProvider("m", "key", server.base_url, dimensions=16, supports_dim_param=False,
                                         needs_client_truncate=True, query_instruction="find: ")  # fmt: skip
        assert len(asking.embed_query("it")) == 16
        assert server.bodies[-1]["input"] == ["find: it"]
        assert "dimensions" not in server.bodies[-1]
        server.always(status(401))
        with pytest.raises(ProviderRefusedError, match="key"):
            provider.embed("text")
    with pytest.raises(UsageError, match="API key"):
        create_embedding_provider("openai", api_key="YOUR API KEY")
    with pytest.raises(UsageError, match="nobody"):
        create_embedding_provider("nobody", api_key="key")


@covers("agent.memory.embedding", "DoubaoEmbeddingProvider")
def test_doubao_is_asked_for_one_text_at_a_time() -> None:
    pytest.importorskip("openai")
    from agent.memory.embedding import DoubaoEmbeddingProvider

    with Loopback(dims=1024) as server:
        provider = DoubaoEmbeddingProvider("doubao-embedding-vision-251215", "key", server.base_url)
        assert len(provider.embed_batch(["one", "two"])) == 2
        assert [body["input"] for body in server.bodies] == [[{"type": "text", "text": t}] for t in ("one", "two")]
        assert {request.path for request in server.requests} == {"/v1/embeddings/multimodal"}
    with pytest.raises(UsageError, match="1024 or 2048"):
        DoubaoEmbeddingProvider("m", "key", dimensions=512)


@covers("agent.memory", "create_default_embedding_provider")
@covers("agent.memory.embedding", "create_default_embedding_provider EMBEDDING_VENDORS")
def test_the_default_provider_is_what_the_hosts_settings_say(
    conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from agent.memory import create_default_embedding_provider
    from agent.memory.embedding import EMBEDDING_VENDORS

    monkeypatch.setenv("OPENAI_API_KEY", "of somebody else")
    assert create_default_embedding_provider() is None  # never picked by itself
    conf["linkai_api_key"] = "l"
    assert create_default_embedding_provider().api_base == EMBEDDING_VENDORS["linkai"]["default_base_url"]
    conf["open_ai_api_key"], conf["open_ai_api_base"] = "o", "http://127.0.0.1:9/v1"
    found = create_default_embedding_provider()
    assert (found.api_key, found.api_base, found.model) == ("o", "http://127.0.0.1:9/v1", "text-embedding-3-small")
    conf.update(embedding_provider="zhipu", zhipu_ai_api_key="z", embedding_dimensions=512)
    found = create_default_embedding_provider()
    assert (found.model, found.dimensions, found.api_key) == ("embedding-3", 512, "z")
    conf.update(embedding_provider="custom:mine", embedding_dimensions=0)
    conf["custom"] = {"mine": {"api_key": "c", "api_base": "http://127.0.0.1:9/x", "model": "own"}}
    found = create_default_embedding_provider()
    assert (found.model, found.api_base, found.requested_dimensions) == ("own", "http://127.0.0.1:9/x", None)
    conf["embedding_provider"] = "dashscope"  # its key is not there
    assert create_default_embedding_provider() is None
    assert "by words alone" in caplog.text
    assert {name: (v["default_dimensions"], v["max_batch_size"]) for name, v in EMBEDDING_VENDORS.items()} == {
        "openai": (1536, 64),
        "linkai": (1536, 64),
        "dashscope": (1024, 10),
        "doubao": (1024, 1),
        "zhipu": (1024, 64),
        "custom": (1024, 64),
    }


@covers("agent.memory.embedding", "EmbeddingProvider EmbeddingProvider.embed_query")
def test_a_hosts_provider_need_not_tell_questions_from_texts() -> None:
    from agent.memory.embedding import EmbeddingProvider

    class Own(EmbeddingProvider):
        dimensions = 2

        def embed(self, text: str) -> list[float]:
            return [1.0, float(len(text))]

        def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
            return [self.embed(text) for text in texts]

    assert Own().embed_query("abc") == [1.0, 3.0]


@covers("agent.memory.embedding", "EmbeddingCache EmbeddingCache.get EmbeddingCache.put EmbeddingCache.clear")
def test_vectors_are_known_by_provider_model_and_text() -> None:
    from agent.memory.embedding import EmbeddingCache

    cache = EmbeddingCache()
    cache.put("text", "openai", "small", [1.0])
    assert cache.get("text", "openai", "small") == [1.0]
    assert cache.get("text", "openai", "large") is None
    for n in range(5000):
        cache.put(str(n), "openai", "small", [1.0])
    assert cache.get("text", "openai", "small") is None  # bounded
    cache.clear()
    assert cache.get("4999", "openai", "small") is None
