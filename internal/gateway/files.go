package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"tandem/jobs"
)

// bucketFiles is where files are kept: what batches read and what they write.
const (
	bucketFiles = "gateway_files"
	keepFiles   = 30 * 24 * time.Hour
	filesBytes  = 2 << 30   // of all
	maxFile     = 200 << 20 // of one
	uploadLimit = 10 * time.Minute
)

// purposes of files.
const (
	purposeBatch  = "batch"
	purposeOutput = "batch_output"
)

// file is one, as OpenAI describes it.
type file struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     uint64 `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Name      string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

// openFiles opens the bucket, and makes it if it is not there.
func openFiles(ctx context.Context, js jetstream.JetStream) (jetstream.ObjectStore, error) {
	store, err := js.ObjectStore(ctx, bucketFiles)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: bucketFiles, Description: "Files of the gateway's batches", TTL: keepFiles, MaxBytes: filesBytes, Storage: jetstream.FileStorage, Replicas: replicas(ctx, js)})
	}
	return store, err
}

// objectName is what a user's file is called in the bucket: whoever knows its id only does not find it.
func objectName(user, id string) string { return url.PathEscape(user) + "/" + id }

func fileOf(info *jetstream.ObjectInfo) (user string, f file) {
	escaped, id, _ := strings.Cut(info.Name, "/")
	user, _ = url.PathUnescape(escaped)
	created, err := strconv.ParseInt(info.Metadata["created"], 10, 64)
	if err != nil {
		created = info.ModTime.Unix()
	}
	return user, file{id, "file", info.Size, created, created + int64(keepFiles/time.Second), info.Metadata["filename"], info.Metadata["purpose"], "processed"}
}

// putFile stores a file of a user.
func putFile(ctx context.Context, store jetstream.ObjectStore, user, id, name, purpose string, content io.Reader) (file, error) {
	info, err := store.Put(ctx, jetstream.ObjectMeta{
		Name:     objectName(user, id),
		Metadata: map[string]string{"filename": name, "purpose": purpose, "created": strconv.FormatInt(time.Now().Unix(), 10)},
	}, content)
	if err != nil {
		return file{}, err
	}
	_, f := fileOf(info)
	return f, nil
}

// files adds the API of files: https://platform.openai.com/docs/api-reference/files
func (b *batches) files(add func(pattern string, h handler)) {
	add("POST /v1/files", b.upload)
	add("GET /v1/files", b.listFiles)
	add("GET /v1/files/{id}", func(w http.ResponseWriter, r *http.Request) error {
		f, err := b.file(r.Context(), callerOf(r).system.User(), r.PathValue("id"))
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, f)
	})
	add("GET /v1/files/{id}/content", b.content)
	add("DELETE /v1/files/{id}", func(w http.ResponseWriter, r *http.Request) error {
		user, id := callerOf(r).system.User(), r.PathValue("id")
		if _, err := b.file(r.Context(), user, id); err != nil {
			return err
		}
		if err := b.store.Delete(r.Context(), objectName(user, id)); err != nil {
			return notStored(err)
		}
		return writeJSON(w, http.StatusOK, map[string]any{"id": id, "object": "file", "deleted": true})
	})
}

func notStored(err error) error {
	return jobs.Errorf(jobs.CodeNATS, "the files cannot be reached now: %w", err)
}

// file finds a user's file.
func (b *batches) file(ctx context.Context, user, id string) (file, error) {
	info, err := b.store.GetInfo(ctx, objectName(user, id))
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return file{}, &refusal{status: http.StatusNotFound, param: "id", text: fmt.Sprintf("there is no file %.100q; GET /v1/files lists yours, which are kept for 30 days", id)}
	case err != nil:
		return file{}, notStored(err)
	}
	_, f := fileOf(info)
	return f, nil
}

// upload takes a form with a file and its purpose, in any order.
func (b *batches) upload(w http.ResponseWriter, r *http.Request) error {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadLimit))
	r.Body = http.MaxBytesReader(w, r.Body, maxFile+64<<10)
	form, err := r.MultipartReader()
	if err != nil {
		return refuse(http.StatusBadRequest, "Content-Type", "the body is no form: %v; send multipart/form-data with file and purpose", err)
	}
	user := callerOf(r).system.User()
	var stored *file
	purpose := ""
	read := func(part *multipart.Part) error {
		switch part.FormName() {
		case "purpose":
			text, err := io.ReadAll(io.LimitReader(part, 100))
			purpose = string(text)
			return err
		case "file":
			if stored != nil {
				return refuse(http.StatusBadRequest, "file", "file is there twice; send one")
			}
			name := part.FileName()
			if name == "" || len(name) > 256 {
				return refuse(http.StatusBadRequest, "file", "file has a name of %d bytes; want 1 to 256", len(name))
			}
			f, err := putFile(r.Context(), b.store, user, "file-"+jobs.NewID(), name, purposeBatch, part)
			if err == nil {
				stored = &f
			}
			return err
		}
		return notHere(part.FormName())
	}
	for err == nil {
		var part *multipart.Part
		if part, err = form.NextPart(); err == nil {
			err = read(part)
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
	case purpose != purposeBatch:
		err = refuse(http.StatusBadRequest, "purpose", "purpose is %.40q; want batch", purpose)
	case stored == nil:
		err = refuse(http.StatusBadRequest, "file", "file is missing; send one of JSON lines")
	case stored.Bytes == 0:
		err = refuse(http.StatusBadRequest, "file", "file is empty; send one of JSON lines")
	default:
		return writeJSON(w, http.StatusOK, stored)
	}
	if stored != nil {
		if gone := b.store.Delete(context.WithoutCancel(r.Context()), objectName(user, stored.ID)); gone != nil {
			b.Log.Warn("a file that was refused is left", "error", gone)
		}
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return refuse(http.StatusRequestEntityTooLarge, "file", "file has more than %d bytes; send several", maxFile)
	}
	if api, is := errors.AsType[*jetstream.APIError](err); is && api.ErrorCode == 10077 { // the stream is full
		return refuse(http.StatusInsufficientStorage, "file", "there is no room for the file: all files together may have %d bytes; delete some, or wait until they are 30 days old", int64(filesBytes))
	}
	if _, is := errors.AsType[*refusal](err); !is {
		return refuse(http.StatusBadRequest, "file", "the form cannot be read: %v", err)
	}
	return err
}

func (b *batches) listFiles(w http.ResponseWriter, r *http.Request) error {
	all, err := b.store.List(r.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return notStored(err)
	}
	purpose := r.URL.Query().Get("purpose")
	var list []file
	for _, info := range all {
		if user, f := fileOf(info); user == callerOf(r).system.User() && (purpose == "" || f.Purpose == purpose) {
			list = append(list, f)
		}
	}
	return writePage(w, r, list, 10_000, func(f file) string { return f.ID })
}

// writePage answers with a part of a list, of which ids sort by time: the newest first, unless asked otherwise, so many, and after one.
func writePage[T any](w http.ResponseWriter, r *http.Request, list []T, most int, id func(T) string) error {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains([]string{"after", "limit", "order", "purpose"}, name) {
			return notHere(name)
		}
	}
	limit := min(most, 10_000)
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return refuse(http.StatusBadRequest, "limit", "limit is %.20q; want 1 to %d", text, most)
		}
		limit = n
	}
	sign := -1
	switch order := q.Get("order"); order {
	case "", "desc":
	case "asc":
		sign = 1
	default:
		return refuse(http.StatusBadRequest, "order", "order is %.20q; want asc or desc", order)
	}
	slices.SortFunc(list, func(x, y T) int { return sign * cmp.Compare(id(x), id(y)) })
	if after := q.Get("after"); after != "" {
		i := slices.IndexFunc(list, func(x T) bool { return id(x) == after })
		if i < 0 {
			return refuse(http.StatusBadRequest, "after", "after is %.100q, which is not in this list", after)
		}
		list = list[i+1:]
	}
	page := map[string]any{"object": "list", "data": append([]T{}, list[:min(limit, len(list))]...), "has_more": len(list) > limit}
	if n := min(limit, len(list)); n > 0 {
		page["first_id"], page["last_id"] = id(list[0]), id(list[n-1])
	}
	return writeJSON(w, http.StatusOK, page)
}

// content answers with a file as it is.
func (b *batches) content(w http.ResponseWriter, r *http.Request) error {
	user, id := callerOf(r).system.User(), r.PathValue("id")
	f, err := b.file(r.Context(), user, id)
	if err != nil {
		return err
	}
	object, err := b.store.Get(r.Context(), objectName(user, id))
	if err != nil {
		return notStored(err)
	}
	defer object.Close()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(uploadLimit))
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Length", strconv.FormatUint(f.Bytes, 10))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Disposition", "attachment")
	if _, err := io.Copy(w, object); err != nil {
		b.Log.Warn("a file was not sent to its end", "error", err)
	}
	return nil
}
