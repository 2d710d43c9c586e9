%-- Candidates that damage their process for the next one, and processes that end
%-- without a candidate's fault. $SPC_TEST_MARK is a file that counts them.
%include "loops.lua"
%
%template = loop_template {
%  summary = "spoils its process",
%  params = {
%    {"tile", {64}, "output rows of a tile"},
%    {"mood", {"good", "round", "careful", "babble", "next", "flaky", "starved", "greedy", "spent", "grown"}, "what it does"},
%  },
%  default = function() return {tile = 64, mood = "good"} end,
%}
#include "spc_abi.h"
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

% write_loops()
% local mood = config.mood

/*
 * The number of processes in which this candidate has run, including this one.
 * The file has a number for each process and candidate, because code with static
 * memory is refused.
 */
static long turn(void)
{
    int file = open(getenv("SPC_TEST_MARK"), O_CREAT | O_RDWR | O_APPEND, 0600);
    long me = 256l * getpid() + '$(mood:sub(1, 1))', of = 0, number = 1;

    while (read(file, &of, sizeof(of)) == sizeof(of) && of != me)
        number++;
    if (of != me && write(file, &me, sizeof(me)) != sizeof(me))
        number = -1;
    close(file);
    return number;
}

void spc_conv(const spc_conv_args *args, unsigned x, unsigned y)
{
    int first = args->map.tile_order[x] * TILE;

    if (first < 0)
        return;
    (void)turn;
% if mood == "round" then
    fesetround(FE_UPWARD);
% elseif mood == "careful" then
    if (fegetround() != FE_TONEAREST)
        return;
% elseif mood == "babble" then
    if (write(3, "how do you do", 13) != 13)
        return;
% elseif mood == "flaky" then
    if (turn() == 1)
        raise(SIGSEGV);
% elseif mood == "starved" then
    if (getenv("SPC_TEST_DOOM") != NULL || turn() <= 4)
        raise(SIGKILL);
% elseif mood == "greedy" then
    /* Address space that is never touched. */
    void *space = mmap(NULL, 1l << 43, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        raise(SIGSEGV);
    munmap(space, 1l << 43);
% elseif mood == "spent" then
    raise(SIGXCPU);
% elseif mood == "grown" then
    _exit(86);
% end
    for (int p = first; p < first + TILE; p++)
        convolve(args, p);
}
