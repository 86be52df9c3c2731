/* Help pages and the man page, from the same texts: name, synopsis, description, options from the option table, exit
 * status, examples. */
#include <attn/base.h>
#include <string.h>

#include "options.h"

#define TEXT_WIDTH 96
#define TEXT_INDENT 4
#define OPTION_COLUMN 25

/* Everything about the program and its figures. */
static const char program_summary[] = "what BLAS buys for attention on this machine";

static const char program_text[] =
    "Times scaled dot-product attention on this machine and shows what BLAS buys: the textbook loops and the same "
    "loops in a cache-friendly order against the engines of libattn. Without a subcommand it runs the sweep.\n"
    "Every engine is compared with a long-double oracle before it is timed; what disagrees is not timed, and the exit "
    "status is 1.";

static const char figures_text[] =
    "flops = 2 * visible (query, key) pairs * (head size + value size), over batch and query heads; the chain adds "
    "2 * rows * d_in * d_out for each of its three products. Softmax counts nothing.\n"
    "GFLOP/s = flops / median time; best = flops / least time. times = GFLOP/s over GFLOP/s of naive. peak = GFLOP/s "
    "over the multiply-add rate of this CPU for as many threads, measured in the same run. GB/s = bytes of K and V, "
    "each read once, / median time.\n"
    "spread = (upper - lower quartile) / median of the timed runs. workspace = memory that attention needs beside its "
    "arguments. error = largest difference from the oracle in units of eps * max|V|.\n"
    "busy = CPU time of all threads / wall time: how many threads really worked. checksum = sum of the output that was "
    "computed.\n"
    "operations per byte = flops / bytes of arguments and workspace, each once. Stages: see the report. cold: "
    "arguments "
    "and workspace are put out of all caches before each run.\n"
    "~ marks loops that were timed on a sample of query rows and scaled up by flops. ? marks figures that are not to "
    "be "
    "trusted: fewer than three repeats, or a spread above 10 %; pictures have a ring around them.";

static const char problem_text[] =
    "PROBLEM is a string of sizes and options: b1h12q1024k1024d64,causal is one batch member, 12 heads, 1024 queries "
    "and keys, head size 64, causal. attn-bench help problem tells all of it; a mistake is answered with what is "
    "accepted. NAME:SHAPE is the problem of a shape file, such as llama-7b:decode-2048 (attn-bench list), FILE:SHAPE "
    "of one "
    "of your own.";

/* ---- The page of the grammar, as tests/support/problem_string.h has it ------------------------------------------- */

typedef struct grammar_entry {
    const char *form, *meaning;
} grammar_entry;

static const char grammar_text[] =
    "One attention problem with its data is one string without blanks: sizes in the order b h q k d v, each a letter "
    "and a number, then options in any order, separated by commas, none twice. q and d are needed. Engine, precision "
    "and threads are not a part of it: they are options of the command.";

static const grammar_entry sizes[] = {
    {"bN", "batch members, default 1"},
    {"hN, hN/M", "N query heads on M key heads; default 1, key heads as many as query heads"},
    {"qN", "query length"},
    {"kN", "key length, default as q"},
    {"dN", "head size of Q and K"},
    {"vN", "head size of V, default as d"},
    {0},
};

static const grammar_entry grammar_options[] = {
    {"causal", "query i sees keys up to its own position"},
    {"tl, br, off=N", "the position of query 0 among the keys: 0 (the default), so that the last query stands at the "
                      "last key, or N"},
    {"scale=X", "factor of the scores, default 1/sqrt(d)"},
    {"window=L:R", "keys to the left and right of the own position, -1 is unlimited"},
    {"softcap=X", "scores are capped at X, above 0"},
    {"mask, mask=KIND",
     "a mask of true and false. KIND: random:P (hidden with probability P; the default, P 0.3), "
     "rowempty:P (random:0.3 and whole rows hidden with probability P), lead:N (keys 0..N-1 "
     "hidden), blocks:N (each N queries see the N keys of their number), all (all visible), none (all hidden)"},
    {"mask_len=N", "the mask covers keys 0..N-1 only, those beyond are hidden"},
    {"bias, bias=KIND", "an additive bias. KIND: normal (the default), large (30 times that), inf:P (-Inf with "
                        "probability P), infrow:P (whole rows), lowest:P, lowestrow:P (the lowest finite number)"},
    {"bias_len=N", "the bias covers keys 0..N-1 only, those beyond are hidden"},
    {"mask@XY, bias@XY", "the same along the dimensions of the letters, of b h q k: mask@bh=random:0.1"},
    {"alibi", "a slope per head, as in the paper"},
    {"sink, sink=X", "a sink logit per head: seeded, or X for all"},
    {"qlens=A:B:.., kvlens=A:B:..", "lengths of the batch members, one each"},
    {"ragged=A:B:../C:D:..", "packed tokens: query lengths / key lengths of the batch members; q and k are at least "
                             "the longest"},
    {"q@X, k@X, v@X", "the same for the whole batch or all heads; letters b h"},
    {"layout=L", "bhld (default), blhd, qkv (one array of Q, K and V side by side), padded (gaps between rows, heads "
                 "and batch members)"},
    {"want=A+B..", "intermediate results too: scores, capped, masked, weights"},
    {"lse", "the log of the sum of exponentials too"},
    {"data=KIND", "normal (default), large (scores of some hundred), equal (all scores of a row the same), neg (all "
                  "scores far below 0), extreme (scores of some thousand)"},
    {"seed=N", "seed of the data, default 1"},
    {"nan=A:b:h:row:col+..", "these elements of A, one of q k v, are NaN"},
    {"inf=A:b:h:row:col+..", "these are +Inf; at most eight with those of nan="},
    {"poison", "keys that no query sees are NaN or Inf"},
    {0},
};

static const char layer_text[] =
    "A layer with its data is two strings: LAYER, sizes in the order d h s v c o and then options separated by commas, "
    "none twice, and HEADS, what its attention is: sizes b q k and the options of PROBLEM. d, h and q are needed.";

static const grammar_entry layer_sizes[] = {
    {"dN", "d_model, columns of X"},
    {"hN, hN/M", "N query heads on M key heads; key heads as many as query heads by default"},
    {"sN", "head size of Q and K, default d / query heads"},
    {"vN", "head size of V, default as s"},
    {"cN", "d_context, columns of the context: cross-attention; without it keys and values come from X"},
    {"oN", "columns of Y, default as d"},
    {0},
};

static const grammar_entry layer_options[] = {
    {"outin", "weights are [out, in] in place of [in, out]"},
    {"packed", "W_Q, W_K and W_V (in cross-attention W_K and W_V) are one matrix"},
    {"bias", "all four projections have one"},
    {"rope=half, rope=pairs",
     "rotary positions, the elements of a head paired with those half a head away or with their "
     "neighbours; rope=half:R on the first R elements only"},
    {"start=N", "position of row 0 (default 0)"},
    {"cache=N, past=N", "a cache for N keys of each member; the keys that it holds before (default 0)"},
    {"pad=N", "N unused elements after each row of X, context, Y and weights, and after each member"},
    {0},
};

static const grammar_entry layer_heads[] = {
    {"bN, qN, kN", "batch members (default 1), rows of X, and in cross-attention rows of the context"},
    {"options of PROBLEM",
     "causal, br, window, mask, qlens, ragged, .. (attn-bench help problem); not q@, k@, v@, layout and "
     "data"},
    {0},
};

static const char layer_examples[] = "d768h12,packed b1q1024\n"
                                     "d2048h32/8,outin,rope=half,cache=8192,past=8191 b1q1,br,causal\n"
                                     "d512h8c768 b2q64k77";

static const char problem_examples[] = "q1024d64\n"
                                       "b1h12q1024k1024d64,causal\n"
                                       "b1h32/8q1k4096d128,br\n"
                                       "b2h8/2q5k1000d64v32,br,causal,kvlens=1000:17,layout=blhd,lse,seed=7";

static const char shapes_text[] =
    "A shape file is text: lines of a name (letters, digits and - . _), blanks and a PROBLEM. What stands behind # is "
    "a "
    "comment; the first comment is the title of the file. Those of BERT-base, GPT-2, LLaMA-7B, Llama-3-8B, ViT-L and "
    "Whisper came with attn-bench and have names: attn-bench list prints them.";

static const char environment_text[] =
    "ATTN_MAX_ISA=generic, neon, avx2 or avx512 caps the instruction set of the library's kernels, amx adds the matrix "
    "unit of Intel's Xeons; the ceilings are measured with the widest vectors of the CPU, so that a share may be "
    "above 1 with amx. The BLAS library is the one that the loader finds: LD_LIBRARY_PATH chooses.";

static const char exit_text[] =
    "0: all went well. 1: an engine disagrees with the oracle, something failed on the way, "
    "or nothing could be timed; compare: a regression, or no point that is in both files. 2: a mistake in the "
    "arguments or a file that cannot be read or "
    "written, standard output among them, told in one line. 130: ended by Ctrl-C; what was measured until then was "
    "written.";

static const char *const description[SUB_COUNT] = {
    [SUB_SWEEP] =
        ("Runs the whole chain X -> Q, K, V -> Z for every d_model and length of a grid: X [batch, length, d_model], "
         "three "
         "projections d_model x d_model, one attention call with heads of 64, no output projection. --d-model, "
         "--heads, "
         "--head-dim, --batch, --len and --threads take numbers and ranges separated by commas: 64:4096:x2 doubles, "
         "64:512:+64 adds. Every combination is run; two of d_model, heads and head size decide the third. "
         "--shapes runs the attention of a model in their place, as sdpa does. Engines: textbook loops (naive), "
         "cache-ordered loops (cache), the library's blas and fused engines. Single precision "
         "everywhere, double on a part of the grid.\n"
         "The run is planned to fit the budget: fewer repeats first, then no doubles, then every second length, then "
         "without the largest points. What was left out is named at the end. Ctrl-C finishes the run under way and "
         "writes what was measured. On a terminal a bar shows the time left."),
    [SUB_SDPA] = ("Times attention alone for one problem. Each engine is checked on sampled rows, warmed up, and run "
                  "until both --repeat and --min-time are reached. Loops longer than two seconds run on a sample of "
                  "rows."),
    [SUB_LAYER] =
        ("Times the library's multi-head layer, a plan with its workspace: projections, rotary positions, cache, "
         "attention, "
         "projection.\n"
         "Flops: 2 * rows * in * out for each projection, and those of attention. GB/s counts weights, biases and the "
         "cache, each read once. The layer is checked against the oracle first, a longer one on its first 40 rows."),
    [SUB_CHECK] =
        ("Runs each engine in each precision once and compares every number of every row with the oracle. One "
         "line each: PASS, FAIL with the place and a line that repeats it, or SKIP with the sentence of the "
         "library that refuses it. Exit status 1 when one fails or none could be checked."),
    [SUB_COMPARE] =
        ("Compares the median times of two files that sweep, sdpa or layer wrote with --json, for points (problem, "
         "engine, "
         "precision, threads) that are in both. A change is taken for one when |ln(new / old)| is beyond the spreads "
         "of "
         "both, sqrt(old^2 + new^2), and both were repeated three times or more.\n"
         "For each engine, precision and number of threads the points are pairs: the mean of ln(new / old) with its 95 "
         "% "
         "interval by Student's t shows a change that is too small for any single point.\n"
         "A regression is a change of a point to more than the bound, a mean beyond the bound whose interval is on the "
         "slow side, or a point that fails its check now. Machines that differ and points of one file only are named."),
    [SUB_EXAMPLE] = ("Three tokens, d_model 2: prints E, P, X, Q, K, V, QK, S, A and Z with four decimals, from one "
                     "traced call in double. Small enough to follow by hand."),
    [SUB_EXPLAIN] = ("Makes a plan and prints what it decided: engine, path, tiles, threads, workspace, and why. "
                     "attn-bench explain "
                     "layer LAYER HEADS does it for a layer: its products, its workspace, and attention."),
    [SUB_LIST] = "Prints the engines, the instruction sets in use, the grid of the sweep, and the shapes of models.",
    [SUB_VERSION] = "Prints the versions of the program, the library and its BLAS, and jansson.",
    [SUB_HELP] = ("Prints the page of a subcommand, the grammar of PROBLEM, or an overview. With --man the whole of it "
                  "as one man "
                  "page."),
};

static const char *const examples[SUB_COUNT] = {
    [SUB_SWEEP] = ("attn-bench\n"
                   "attn-bench sweep --d-model 768 --len 64:4096:x4 --budget 20\n"
                   "attn-bench sweep --heads 1:16:x2 --head-dim 64,128 --len 1024 --engine blas,fused\n"
                   "attn-bench sweep --d-model 768 --batch 1,8 --len 512 --threads 1,2\n"
                   "attn-bench sweep --shapes llama-3-8b --engine blas,fused\n"
                   "attn-bench sweep --threads 2 --json results.json --csv results.csv"),
    [SUB_SDPA] = ("attn-bench sdpa b1h12q1024k1024d64\n"
                  "attn-bench sdpa b1h32/8q1k4096d128,br --engine fused,blas --dtype f32 --json -\n"
                  "attn-bench sdpa b1h12q1024k1024d64,causal --engine all --threads 2"),
    [SUB_LAYER] = ("attn-bench layer d768h12,packed b1q1024\n"
                   "attn-bench layer d2048h32/8,outin,rope=half,cache=8192,past=8191 b1q1,br,causal"),
    [SUB_CHECK] = ("attn-bench check b2h6/3q37k53d17v11,causal,br,lse\n"
                   "attn-bench check b1h2q64k64d16 --engine fused --dtype f64"),
    [SUB_COMPARE] = ("attn-bench sweep --json old.json\n"
                     "attn-bench sweep --json new.json\n"
                     "attn-bench compare old.json new.json --bound 5%"),
    [SUB_EXAMPLE] = "attn-bench example",
    [SUB_EXPLAIN] = ("attn-bench explain b1h12q1024k1024d64,causal --threads 2\n"
                     "attn-bench explain layer d2048h32/8,outin,rope=half,cache=8192 b1q1,br,causal"),
    [SUB_LIST] = "attn-bench list",
    [SUB_VERSION] = "attn-bench version",
    [SUB_HELP] = ("attn-bench help sweep\n"
                  "attn-bench help --man | man -l -"),
};

const char *help_figures(void) {
    return figures_text;
}

/* ---- Where a page goes: plain text, or the macros of man(7) ------------------------------------------------------ */

typedef struct page {
    FILE *out;
    bool man;
} page;

/* Text in lines of at most TEXT_WIDTH columns, indented; the first line begins at column `used`. A newline in the text
 * starts a new paragraph. */
static void print_wrapped(const char *text, int indent, int used, FILE *out) {
    int column = used;
    while (*text) {
        if (*text == '\n') {
            fputs(indent == TEXT_INDENT ? "\n\n" : "\n", out);
            column = 0;
            text++;
        }
        int word = (int)strcspn(text, " \n");
        bool line_begins = column == 0;
        if (!line_begins && column > indent && column + 1 + word > TEXT_WIDTH) {
            fputc('\n', out);
            line_begins = true;
        }
        if (line_begins)
            column = fprintf(out, "%*s", indent, "");
        else if (column > indent)
            column += fprintf(out, " ");
        column += fprintf(out, "%.*s", word, text);
        text += word;
        text += *text == ' ';
    }
    fputc('\n', out);
}

/* n characters of text as roff has them: none of them a request, an escape or a quote that is made prettier. */
static void print_roff(const char *text, int n, FILE *out) {
    for (int i = 0; i < n; i++)
        switch (text[i]) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        case '~':
            fputs("\\(ti", out);
            break;
        case '^':
            fputs("\\(ha", out);
            break;
        case '\'':
            fputs("\\(aq", out);
            break;
        case '.':
            fputs(i == 0 || text[i - 1] == '\n' ? "\\&." : ".", out);
            break;
        default:
            fputc(text[i], out);
        }
}

/* Paragraphs, one per line of the text. */
static void print_roff_paragraphs(const char *text, FILE *out) {
    while (*text) {
        int n = (int)strcspn(text, "\n");
        print_roff(text, n, out);
        text += n + (text[n] == '\n');
        fputs(*text ? "\n.PP\n" : "\n", out);
    }
}

static void put_section(const page *p, const char *title) {
    fprintf(p->out, p->man ? ".SH %s\n" : "\n%s\n", title);
}

static void put_text(const page *p, const char *text) {
    if (p->man)
        print_roff_paragraphs(text, p->out);
    else
        print_wrapped(text, TEXT_INDENT, 0, p->out);
}

/* A form (an option, a word of the grammar, a subcommand) and what it means. */
static void put_entry(const page *p, const char *form, const char *meaning) {
    if (p->man) {
        fputs(".TP\n\\fB", p->out);
        print_roff(form, (int)strlen(form), p->out);
        fputs("\\fR\n", p->out);
        print_roff_paragraphs(meaning, p->out);
        return;
    }
    int used = fprintf(p->out, "    %s", form);
    /* A long form has a line of its own. */
    if (used + 2 > OPTION_COLUMN) {
        fputc('\n', p->out);
        used = 0;
    }
    if (used)
        used += fprintf(p->out, "%*s", OPTION_COLUMN - used, "");
    print_wrapped(meaning, OPTION_COLUMN, used, p->out);
}

/* Lines as they stand: commands. */
static void put_lines(const page *p, const char *lines) {
    if (p->man)
        fputs(".PP\n.nf\n.RS 4\n", p->out);
    while (*lines) {
        int n = (int)strcspn(lines, "\n");
        if (p->man)
            print_roff(lines, n, p->out);
        else
            fprintf(p->out, "    %.*s", n, lines);
        fputc('\n', p->out);
        lines += n + (lines[n] == '\n');
    }
    if (p->man)
        fputs(".RE\n.fi\n", p->out);
}

static void put_section_text(const page *p, const char *title, const char *text) {
    put_section(p, title);
    put_text(p, text);
}

/* ---- Parts of pages ---------------------------------------------------------------------------------------------- */

static const char *option_form(const option_entry *e, char *text, size_t size) {
    snprintf(text, size, "--%s%s%s", e->name, e->argument ? " " : "", e->argument ? e->argument : "");
    return text;
}

static const char *subcommand_form(const subcommand_entry *s, char *text, size_t size) {
    snprintf(text, size, "%s%s%s", s->name, s->operand ? " " : "", s->operand ? s->operand : "");
    return text;
}

static void put_options(const page *p, unsigned subcommands) {
    char form[64];
    put_section(p, "OPTIONS");
    for (const option_entry *e = option_table; e->name; e++)
        if (e->subcommands & subcommands)
            put_entry(p, option_form(e, form, sizeof form), e->help);
}

static void put_entries(const page *p, const char *title, const grammar_entry *e) {
    put_section(p, title);
    for (; e->form; e++)
        put_entry(p, e->form, e->meaning);
}

static void put_layer_grammar(const page *p) {
    put_section_text(p, "LAYER AND HEADS", layer_text);
    put_entries(p, "LAYER: SIZES", layer_sizes);
    put_entries(p, "LAYER: OPTIONS", layer_options);
    put_entries(p, "HEADS", layer_heads);
}

static void put_grammar(const page *p) {
    put_text(p, grammar_text);
    put_entries(p, p->man ? "PROBLEM: SIZES" : "SIZES", sizes);
    put_entries(p, p->man ? "PROBLEM: OPTIONS" : "OPTIONS", grammar_options);
}

/* ---- Pages ------------------------------------------------------------------------------------------------------- */

static void print_program(FILE *out) {
    page p = {.out = out};
    char form[64];
    fprintf(out, "NAME\n    attn-bench - %s\n", program_summary);
    fprintf(out, "\nSYNOPSIS\n    attn-bench [SUBCOMMAND] [OPTION]... [PROBLEM]\n");
    put_section_text(&p, "DESCRIPTION", program_text);
    put_section(&p, "SUBCOMMANDS");
    for (int id = 0; id < SUB_COUNT; id++)
        put_entry(&p, subcommand_form(&subcommand_table[id], form, sizeof form), subcommand_table[id].summary);
    fputc('\n', out);
    put_text(&p, "attn-bench help SUBCOMMAND prints its page with all options, help problem the grammar of PROBLEM.");
    put_section_text(&p, "PROBLEM", problem_text);
    put_section_text(&p, "FIGURES", figures_text);
    put_section_text(&p, "ENVIRONMENT", environment_text);
    put_section_text(&p, "EXIT STATUS", exit_text);
    put_section(&p, "EXAMPLES");
    put_lines(&p, examples[SUB_SWEEP]);
}

static void print_page(subcommand_id id, FILE *out) {
    page p = {.out = out};
    char form[64];
    const subcommand_entry *s = &subcommand_table[id];
    fprintf(out, "NAME\n    attn-bench %s - %s\n", s->name, s->summary);
    fprintf(out, "\nSYNOPSIS\n    attn-bench %s [OPTION]...\n", subcommand_form(s, form, sizeof form));
    put_section_text(&p, "DESCRIPTION", description[id]);
    put_options(&p, 1u << id);
    if (s->operand && strcmp(s->operand, "PROBLEM") == 0)
        put_section_text(&p, "PROBLEM", problem_text);
    if (id == SUB_LAYER)
        put_layer_grammar(&p);
    if (id == SUB_SWEEP || id == SUB_SDPA)
        put_section_text(&p, "FIGURES", figures_text);
    if (id == SUB_SWEEP)
        put_section_text(&p, "SHAPE FILES", shapes_text);
    put_section_text(&p, "EXIT STATUS", exit_text);
    put_section(&p, "EXAMPLES");
    put_lines(&p, examples[id]);
}

static void print_problem_page(FILE *out) {
    page p = {.out = out};
    fprintf(out, "NAME\n    PROBLEM - the string that describes an attention problem\n");
    fprintf(out, "\nSYNOPSIS\n    [bN][hN[/M]]qN[kN]dN[vN][,OPTION]...\n");
    put_section(&p, "DESCRIPTION");
    put_grammar(&p);
    put_section(&p, "EXAMPLES");
    put_lines(&p, problem_examples);
}

/* The subcommands that know an option: "sweep, sdpa: ". Nothing when all do. */
static void put_option_with_owners(const page *p, const option_entry *e) {
    char form[64], text[768] = "";
    bool all = true;
    for (int id = 0; id < SUB_COUNT; id++) {
        size_t used = strlen(text);
        if (e->subcommands & 1u << id)
            snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", subcommand_table[id].name);
        else
            all = false;
    }
    size_t used = all ? 0 : strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s", used ? ": " : "", e->help);
    put_entry(p, option_form(e, form, sizeof form), text);
}

void help_print_man(FILE *out) {
    page p = {.out = out, .man = true};
    char form[64];
    fprintf(out, ".TH ATTN\\-BENCH 1 \"\" \"libattn %d.%d.%d\" \"User Commands\"\n", ATTN_VERSION_MAJOR,
            ATTN_VERSION_MINOR, ATTN_VERSION_PATCH);
    fprintf(out, ".SH NAME\nattn\\-bench \\- %s\n", program_summary);
    put_section(&p, "SYNOPSIS");
    for (int id = 0; id < SUB_COUNT; id++)
        fprintf(out, "%s\\fBattn\\-bench\\fR %s [OPTION]...\n", id ? ".br\n" : "",
                subcommand_form(&subcommand_table[id], form, sizeof form));
    put_section_text(&p, "DESCRIPTION", program_text);
    put_section(&p, "SUBCOMMANDS");
    for (int id = 0; id < SUB_COUNT; id++) {
        fprintf(out, ".SS %s\n", subcommand_form(&subcommand_table[id], form, sizeof form));
        put_text(&p, description[id]);
        put_lines(&p, examples[id]);
    }
    put_section(&p, "OPTIONS");
    put_text(&p, "Each with the subcommands that know it.");
    for (const option_entry *e = option_table; e->name; e++)
        put_option_with_owners(&p, e);
    put_section(&p, "PROBLEM");
    put_grammar(&p);
    put_lines(&p, problem_examples);
    put_layer_grammar(&p);
    put_lines(&p, layer_examples);
    put_section_text(&p, "SHAPE FILES", shapes_text);
    put_section_text(&p, "FIGURES", figures_text);
    put_section_text(&p, "ENVIRONMENT", environment_text);
    put_section_text(&p, "EXIT STATUS", exit_text);
}

bool help_print(const char *name, FILE *out) {
    if (name && strcmp(name, "problem") == 0) {
        print_problem_page(out);
        return true;
    }
    if (!name) {
        print_program(out);
        return true;
    }
    for (int id = 0; id < SUB_COUNT; id++)
        if (strcmp(name, subcommand_table[id].name) == 0) {
            print_page((subcommand_id)id, out);
            return true;
        }
    return false;
}
