package measure

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/selvage/selvage/internal/await"
)

// AppInstruments are those of the application loop.
type AppInstruments struct {
	AppWeb    AppWeb    `cmd:"" name:"lab-app-web" hidden:""`
	AppClient AppClient `cmd:"" name:"lab-app-client" hidden:""`
}

// AppWeb is a web service that answers GET /item/N with what the database has under N.
type AppWeb struct {
	Endpoint
	Database     netip.Addr `required:"" help:"address of PostgreSQL"`
	DatabasePort uint16     `required:"" help:"its port"`
}

// appItem is an item as the web service writes it.
type appItem struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Price int    `json:"price"`
}

const (
	appItems = 10_000
	// A service keeps a few connections to its database, whatever its clients do.
	appPool = 8
	// Garbage is collected when there is so much, which is rarely in a run.
	appMemory = 256 << 20
	// A request that takes longer is an error: the path is broken.
	appTimeout = 5 * time.Second
	// databaseTime is for a database to recover and to be filled, on a machine with other work.
	databaseTime = 30 * time.Second
)

// appName is the name of an item. The database computes it when it is filled, and the
// client of the web service once more: so an answer is known to be the database's.
func appName(id int) string {
	sum := md5.Sum([]byte(strconv.Itoa(id)))
	return hex.EncodeToString(sum[:])
}

// steady keeps the garbage collector out of most requests. Goroutines wait for packets by
// the poller, as in every such program.
func steady() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(appMemory)
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
}

// Run fills the database and serves until it is killed.
func (w *AppWeb) Run() error {
	steady()
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable connect_timeout=%d pool_max_conns=%d",
		w.Database, w.DatabasePort, databaseRole, databaseName, int(appTimeout.Seconds()), appPool))
	if err != nil {
		return fmt.Errorf("settings of the database: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer pool.Close()
	if err := awaitDatabase(ctx, pool); err != nil {
		return fmt.Errorf("database at %s: %w", netip.AddrPortFrom(w.Database, w.DatabasePort), err)
	}
	if err := fillItems(ctx, pool); err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	listener, err := listenTCP(w.Addr, w.Port)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /item/{id}", func(answer http.ResponseWriter, request *http.Request) { serveItem(pool, answer, request) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: appTimeout}
	return server.Serve(listener)
}

// awaitDatabase waits while the database listens and is not ready yet.
func awaitDatabase(ctx context.Context, pool *pgxpool.Pool) error {
	const startingUp = "57P03" // PostgreSQL's appendix A: cannot_connect_now
	var failed error
	err := await.Within(ctx, databaseTime, "the database to be ready", func() error {
		err := pool.Ping(ctx)
		var output *pgconn.PgError
		if errors.As(err, &output) && output.Code == startingUp {
			return err
		}
		failed = err
		return nil
	})
	return errors.Join(err, failed)
}

// fillItems makes the table of items.
func fillItems(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	for _, statement := range []string{
		"CREATE TABLE items (id integer PRIMARY KEY, name text NOT NULL, price integer NOT NULL)",
		fmt.Sprintf("INSERT INTO items SELECT i, md5(i::text), i %% 997 FROM generate_series(0, %d) AS i", appItems-1),
		"VACUUM ANALYZE items",
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func serveItem(pool *pgxpool.Pool, answer http.ResponseWriter, request *http.Request) {
	id, err := strconv.Atoi(request.PathValue("id"))
	if err != nil {
		http.Error(answer, "the id is not a number", http.StatusBadRequest)
		return
	}
	item := appItem{ID: id}
	err = pool.QueryRow(request.Context(), "SELECT name, price FROM items WHERE id = $1", id).Scan(&item.Name, &item.Price)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.Error(answer, "there is no such item", http.StatusNotFound)
		return
	case err != nil:
		http.Error(answer, err.Error(), http.StatusBadGateway)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(item) // the client has gone
}

// checkItem checks the body of an answer.
func checkItem(body []byte, id int) error {
	var item appItem
	if err := json.Unmarshal(body, &item); err != nil {
		return fmt.Errorf("%w in %q", err, body)
	}
	if item.ID != id || item.Name != appName(id) {
		return fmt.Errorf("item %d is answered with %+v, which is not the database's", id, item)
	}
	return nil
}
