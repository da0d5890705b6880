package measure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/topo"
)

// database is a PostgreSQL of its own: its data is a directory of the lab, it listens in
// its host alone, and the web service is all that may speak to it.
type database struct {
	version string
	dir     string
	command *topo.Command
}

const (
	databaseUser = "postgres" // of the machine, made by Debian's package
	databaseRole = "selvage"  // of the database
	databaseName = "postgres"

	databaseGrace = 3 * time.Second
)

// startDatabase makes an empty database and waits until it listens.
func startDatabase(ctx context.Context, ends AppEnds) (_ *database, err error) {
	bin, err := postgresDir()
	if err != nil {
		return nil, err
	}
	db := &database{dir: filepath.Join(ends.Database.Lab().Dir, ends.Database.Name+"-database")}
	if err := db.makeDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.stop(context.WithoutCancel(ctx)))
		}
	}()
	if err := db.initialise(ctx, ends, bin); err != nil {
		return nil, err
	}
	if db.version, err = postgresVersion(ctx, ends.Database, bin); err != nil {
		return nil, err
	}
	db.command = ends.Database.Command(ctx, asDatabaseUser(append([]string{filepath.Join(bin, "postgres"), "-D", db.dir}, settings(ends)...)...)...)
	db.command.CPUs = cores.Usable()[:1]
	db.command.Log = db.dir + ".log"
	if err := db.command.Start(); err != nil {
		return nil, err
	}
	if err := ends.Database.AwaitListen(ctx, "tcp", AppDatabasePort); err != nil {
		log, _ := os.ReadFile(db.command.Log)
		return nil, fmt.Errorf("PostgreSQL: %w; its log: %s", err, log)
	}
	return db, nil
}

// postgresDir is where Debian puts the servers' programs, of the newest version: they
// are not in anybody's PATH.
func postgresDir() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.Join(errors.New("PostgreSQL is not installed: apt-get install postgresql"), err)
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return majorOf(a) - majorOf(b) })
	return filepath.Dir(newest), nil
}

func majorOf(initdb string) int {
	major, _ := strconv.Atoi(strings.Split(initdb, "/")[4]) // 0 for what is no version
	return major
}

func postgresVersion(ctx context.Context, h *topo.Host, bin string) (string, error) {
	out, err := h.Output(ctx, filepath.Join(bin, "postgres"), "--version")
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), "(PostgreSQL) ")
	return "PostgreSQL " + version, nil
}

// asDatabaseUser is argv for the one user that PostgreSQL agrees to run as: not root. What
// it shares among its processes is a namespace's, so that it goes with them also when they
// are killed. A change of user clears the signal that ends them with the lab, so it is set anew.
func asDatabaseUser(argv ...string) []string {
	const ownShm = `mount -t tmpfs tmpfs /dev/shm && exec "$@"`
	return append([]string{
		"unshare", "--ipc", "--mount", "--wd=/", "sh", "-c", ownShm, "sh",
		"setpriv", "--reuid=" + databaseUser, "--regid=" + databaseUser, "--clear-groups", "--pdeathsig=KILL", "--",
	}, argv...)
}

// makeDir makes the directory of the data, which only the user may read.
func (db *database) makeDir() error {
	account, err := user.Lookup(databaseUser)
	if err != nil {
		return fmt.Errorf("PostgreSQL's user (Debian's postgresql-common makes it): %w", err)
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return fmt.Errorf("user %s: %w", databaseUser, err)
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return fmt.Errorf("user %s: %w", databaseUser, err)
	}
	if err := os.Mkdir(db.dir, 0o700); err != nil {
		return fmt.Errorf("directory of the database: %w", err)
	}
	return os.Chown(db.dir, uid, gid)
}

func (db *database) initialise(ctx context.Context, ends AppEnds, bin string) error {
	_, err := ends.Database.Output(ctx, asDatabaseUser(filepath.Join(bin, "initdb"), "--pgdata="+db.dir, "--username="+databaseRole,
		"--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8", "--wal-segsize=1")...)
	if err != nil {
		return fmt.Errorf("make a database: %w", err)
	}
	web := netip.PrefixFrom(ends.WebAddr, ends.WebAddr.BitLen())
	access := fmt.Sprintf("host all %s %s trust\n", databaseRole, web)
	return os.WriteFile(filepath.Join(db.dir, "pg_hba.conf"), []byte(access), 0o600)
}

// settings are PostgreSQL's: nothing works in the background while there are no requests,
// and the disk is no part of any.
func settings(ends AppEnds) []string {
	var argv []string
	for _, setting := range []string{
		"listen_addresses=" + ends.DatabaseAddr.String(), "port=" + strconv.Itoa(AppDatabasePort), "unix_socket_directories=",
		"max_connections=20", "shared_buffers=16MB",
		"fsync=off", "full_page_writes=off", "synchronous_commit=off", "wal_level=minimal", "max_wal_senders=0",
		"autovacuum=off", "jit=off", "max_parallel_workers=0", "bgwriter_lru_maxpages=0", "checkpoint_timeout=1d",
	} {
		argv = append(argv, "-c", setting)
	}
	return argv
}

// stop ends the database and removes its data. SIGTERM waits for clients to go, of whom
// a cut path may keep one: then a kill does as well for data that nobody wants.
func (db *database) stop(ctx context.Context) error {
	if db.command != nil {
		ctx, cancel := context.WithTimeout(ctx, databaseGrace)
		defer cancel()
		_ = db.command.Stop(ctx)
	}
	return os.RemoveAll(db.dir)
}
