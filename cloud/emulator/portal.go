// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Portal is one emulated cloud portal. Its methods may be called from many goroutines. For virtual time make it inside
// the testing/synctest bubble that uses it.
type Portal struct {
	opts     Options
	routes   []route
	log      requestLog
	tokenKey []byte
	tls      authority

	ctx    context.Context //nolint:containedctx // Ends with Close. Jobs and delays end with it.
	cancel context.CancelFunc
	wg     sync.WaitGroup // jobs, requests and listeners under way

	mu        sync.Mutex // guards all fields below. It is never held while waiting
	closed    bool
	servers   []*http.Server
	url       string
	ids       *rand.Rand
	faultRand *rand.Rand // of faults
	requests  uint64
	removals  VictimOrder // of scale-downs
	nextFault int
	faults    []*activeFault
	limits    map[string]*limiter
	users     map[string]*user // by lower-case e-mail
	sessions  map[string]*session
	resets    map[string]*reset
	mailbox   map[string][]Mail
	versions  []Version
	vpcs      []*VPC
	networks  []*Network
	volumes   []*Volume
	clusters  []*cluster // oldest first
	remains   []*cluster // deleted, and not gone yet (Traits.RemainsFor)
	jobs      []*job     // oldest first
	jobsByID  map[string]*job
	reserved  map[string]time.Time // until when names of deleted clusters are (Traits.NamesReserved), by account and name
	pruneAt   int                  // how many sessions there may be before those that ended long ago are forgotten
}

// New returns a portal that serves requests through Transport and Handler at once. It starts nothing by itself but the scanner of
// Traits.ScanInterval.
func New(opts Options) (*Portal, error) {
	opts.setDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Seed == 0 {
		opts.Seed = int64(randomUint64() >> 1)
	}
	p := &Portal{
		opts:      opts,
		tokenKey:  make([]byte, 32),
		ids:       rand.New(rand.NewPCG(uint64(opts.Seed), 1)),
		faultRand: rand.New(rand.NewPCG(uint64(opts.Seed), 2)),
		limits:    map[string]*limiter{},
		users:     map[string]*user{},
		sessions:  map[string]*session{},
		resets:    map[string]*reset{},
		mailbox:   map[string][]Mail{},
		jobsByID:  map[string]*job{},
		reserved:  map[string]time.Time{},
		removals:  opts.VictimOrder,
	}
	p.log.to, p.log.size = opts.RequestLogTo, opts.RequestLogSize
	p.opts.BasePath = strings.TrimSuffix(opts.BasePath, "/")
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if _, err := crand.Read(p.tokenKey); err != nil {
		return nil, fmt.Errorf("token key: %w", err)
	}
	p.routes = p.endpoints()
	if err := p.addInitialRecords(); err != nil {
		p.cancel()
		return nil, err
	}
	if every := opts.Traits.ScanInterval; every > 0 {
		p.later(every, p.scan)
	}
	return p, nil
}

// later calls do after each interval until it returns false, or until the portal closes. Close waits for it.
func (p *Portal) later(interval time.Duration, do func() (again bool)) {
	p.wg.Go(func() {
		for sleep(p.ctx, interval) == nil && do() {
		}
	})
}

// addInitialRecords creates the users, versions, VPCs and volumes that the options list.
func (p *Portal) addInitialRecords() error {
	p.record(LogEntry{Object: "portal", To: "ready", Detail: fmt.Sprintf("seed=%d", p.opts.Seed)})
	for _, u := range p.opts.Users {
		if err := p.addUser(u); err != nil {
			return err
		}
	}
	if err := p.addVersions(p.opts.Versions); err != nil {
		return err
	}
	p.addVPCs(p.opts.VPCs)
	for _, v := range p.opts.Volumes {
		p.AddVolume(v)
	}
	return p.Inject(p.opts.Faults...)
}

// Format implements fmt.Formatter for every verb, so that none walks the portal's records: they hold secrets.
func (p *Portal) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "portal "+p.URL()) }

// Seed of all randomness but secrets: a portal with the same seed and the same requests in the same order makes the
// same choices.
func (p *Portal) Seed() int64 { return p.opts.Seed }

// Close ends listeners, jobs and requests under way, waits for them, and deletes the workload clusters. Requests made
// later get 503. Deletions that failed are in the request log.
func (p *Portal) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.wg.Wait()
		return
	}
	p.closed = true
	servers := p.servers
	p.mu.Unlock()

	p.cancel()
	for _, s := range servers {
		_ = s.Close() // a listener that is closed already is what we want
	}
	p.wg.Wait()
	p.deleteWorkloads()
}

// startWork registers work that Close waits for. It returns false if the portal is closed.
func (p *Portal) startWork() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Add(1)
	return true
}

// now is the portal's clock, which may be ahead of or behind the machine's.
func (p *Portal) now() time.Time { return time.Now().Add(p.opts.ClockSkew) }

// newID returns an identifier that no other record has. Callers hold mu.
func (p *Portal) newID(kind string) string {
	return fmt.Sprintf("%s-%012x", kind, p.ids.Uint64()>>16)
}

// randFor returns randomness of one record's own, so that its course does not depend on other records.
func (p *Portal) randFor(id string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	return rand.New(rand.NewPCG(uint64(p.opts.Seed), h.Sum64()))
}

// sleep waits for d, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// secret returns n random characters. Secrets never come from the seed.
func secret(n int) string {
	const alphabet = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[randomUint64()%uint64(len(alphabet))]
	}
	return string(out)
}

func randomUint64() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails: the runtime ends the program instead
	return binary.LittleEndian.Uint64(b[:])
}
